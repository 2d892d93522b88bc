//! The versions of the GNU C library that a program for Linux needs, read from the names of versions of its
//! symbols (the section `.gnu.version_r`).

use anyhow::{Context as _, ensure};

/// The type of the section with the versions that a program needs.
const VERSIONS_NEEDED: u32 = 0x6fff_fffe;

/// Returns the newest version, such as `(2, 34)`; `None` for a program that is linked without it.
///
/// # Errors
/// If this is no 64-bit little-endian ELF file, or a broken one.
pub(crate) fn glibc(elf: &[u8]) -> anyhow::Result<Option<(u32, u32)>> {
    let is_known = elf.starts_with(b"\x7fELF\x02\x01");
    ensure!(is_known, "not a 64-bit little-endian ELF file");
    let file = File(elf);
    let (table, size) = (file.u64(0x28)?, u64::from(file.u16(0x3a)?));
    let sections = u64::from(file.u16(0x3c)?);
    let at = |number: u64| table + number * size;
    let mut newest = None;
    for section in (0..sections).map(at) {
        if file.u32(section + 4)? != VERSIONS_NEEDED {
            continue;
        }
        let strings = file.u64(at(u64::from(file.u32(section + 0x28)?)) + 0x18)?;
        let mut library = file.u64(section + 0x18)?;
        for _ in 0..file.u32(section + 0x2c)? {
            let mut version = library + u64::from(file.u32(library + 8)?);
            for _ in 0..file.u16(library + 2)? {
                let name = file.text(strings + u64::from(file.u32(version + 8)?))?;
                newest = newest.max(parse(name));
                version += u64::from(file.u32(version + 12)?);
            }
            library += u64::from(file.u32(library + 12)?);
        }
    }
    Ok(newest)
}

/// Parses `GLIBC_2.34`, also `GLIBC_2.2.5`; others, such as `GCC_3.0`, are `None`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn bytes<const N: usize>(&self, at: u64) -> anyhow::Result<[u8; N]> {
        let at = usize::try_from(at)?;
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().context("the ELF file is cut off")
    }

    fn u16(&self, at: u64) -> anyhow::Result<u16> {
        Ok(u16::from_le_bytes(self.bytes(at)?))
    }

    fn u32(&self, at: u64) -> anyhow::Result<u32> {
        Ok(u32::from_le_bytes(self.bytes(at)?))
    }

    fn u64(&self, at: u64) -> anyhow::Result<u64> {
        Ok(u64::from_le_bytes(self.bytes(at)?))
    }

    fn text(&self, at: u64) -> anyhow::Result<&'a str> {
        let rest = self.0.get(usize::try_from(at)?..).unwrap_or_default();
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(std::str::from_utf8(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(parse("GLIBC_2.34") > parse("GLIBC_2.4"));
        assert_eq!(parse("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(parse("GLIBC_PRIVATE"), None);
        assert_eq!(parse("GCC_4.2.0"), None);
    }

    #[test]
    fn this_test_needs_a_version_if_it_is_linked_with_the_library() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            assert!(glibc(&own).unwrap().unwrap() >= (2, 14));
        }
        assert!(glibc(&own[..own.len().min(1000)]).is_err());
        assert!(glibc(b"MZ").is_err());
    }
}
