//! Archives with the same bytes for the same files: sorted, with one time, and owned by root.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// A file in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The path in the archive, with `/`.
    pub(crate) path: String,
    /// The permissions, such as `0o644`.
    pub(crate) mode: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Entry {
    /// A file that everybody may read.
    pub(crate) fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            mode: 0o644,
            bytes: bytes.into(),
        }
    }

    /// A program, from this file.
    pub(crate) fn program(path: impl Into<String>, file: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        let entry = Self::new(path, bytes);
        Ok(entry.with_mode(0o755))
    }

    pub(crate) fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }
}

fn sorted(entries: &[Entry]) -> Vec<&Entry> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

/// Returns the bytes of a tar archive, without its folders, which are made while it is unpacked.
pub(crate) fn tar(entries: &[Entry], epoch: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for entry in sorted(entries) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_mtime(epoch);
        header.set_size(entry.bytes.len() as u64);
        archive.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

/// Returns bytes compressed as by `gzip -9n`.
pub(crate) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut writer = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

pub(crate) fn tar_gz(entries: &[Entry], epoch: u64) -> anyhow::Result<Vec<u8>> {
    gzip(&tar(entries, epoch)?)
}

/// Returns the bytes of a zip archive.
pub(crate) fn zip(entries: &[Entry], epoch: u64) -> anyhow::Result<Vec<u8>> {
    let time = date_time(epoch);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in sorted(entries) {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(time)
            .unix_permissions(entry.mode);
        archive.start_file(&entry.path, options)?;
        archive.write_all(&entry.bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Returns the calendar date of a time; a zip archive has none before 1980.
fn date_time(epoch: u64) -> DateTime {
    let (days, seconds) = (epoch / 86_400, epoch % 86_400);
    let (year, month, day) = date(days);
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    let part = |number: u64| u8::try_from(number).unwrap_or(0);
    let year = u16::try_from(year).unwrap_or(1980);
    let time = DateTime::from_date_and_time(
        year,
        part(month),
        part(day),
        part(hour),
        part(minute),
        part(second),
    );
    time.unwrap_or_default()
}

/// Returns year, month and day of a number of days since 1970-01-01, by Howard Hinnant's `civil_from_days`.
pub(crate) fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last of one.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// Returns the SHA-256 sum in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::new();
    for byte in hmac_sha256::Hash::hash(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_089), (2025, 1, 1));
    }

    #[test]
    fn archives_do_not_depend_on_the_order_of_files() {
        let (a, b) = (
            Entry::new("a", "1"),
            Entry::new("b/c", "2").with_mode(0o755),
        );
        let orders = [[a.clone(), b.clone()], [b, a]];
        for write in [tar_gz, zip] {
            let [one, two] = orders
                .each_ref()
                .map(|order| write(order, 1 << 30).unwrap());
            assert_eq!(one, two);
        }
    }

    #[test]
    fn sums_are_those_of_sha256sum() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }
}
