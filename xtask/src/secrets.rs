//! Keys and passwords of local services: random, readable by their owner only, never printed.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// 48 random hexadecimal digits.
pub(crate) fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The secret in the file, made by `fresh` when there is none yet.
pub(crate) fn read_or_create(
    file: &Path,
    fresh: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    if let Some(secret) = read(file) {
        return Ok(secret);
    }
    let secret = fresh()?;
    write(file, &secret)?;
    Ok(secret)
}

/// The secret in the file, if there is one.
pub(crate) fn read(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let secret = text.trim();
    (!secret.is_empty()).then(|| secret.to_owned())
}

/// Puts the secret into the file, in one step for those who read it meanwhile.
pub(crate) fn write(file: &Path, secret: &str) -> anyhow::Result<()> {
    let draft = file.with_extension("new");
    let _ = fs::remove_file(&draft);
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut out| out.write_all(secret.as_bytes()))
        .and_then(|()| fs::rename(&draft, file))
        .with_context(|| format!("could not write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_is_private() {
        let file = std::env::temp_dir().join(format!("xtask-secret-{}", std::process::id()));
        let first = read_or_create(&file, random).unwrap();
        let again = read_or_create(&file, random).unwrap();
        assert_eq!(first, again);
        assert_eq!(first.len(), 48);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::remove_file(&file).unwrap();
    }
}
