//! Keys and passwords of local services: random, readable by their owner only, never printed.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the secret in the file; creates a missing one, with this suffix.
pub(crate) fn read_or_create(file: &Path, suffix: &str) -> Result<String> {
    if let Some(secret) = read(file) {
        return Ok(secret);
    }
    let secret = random()? + suffix;
    write(file, &secret)?;
    Ok(secret)
}

/// Returns the secret in the file, if there is one.
pub(crate) fn read(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let secret = text.trim();
    (!secret.is_empty()).then(|| secret.to_owned())
}

/// Writes the secret to the file atomically.
pub(crate) fn write(file: &Path, secret: &str) -> Result<()> {
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
    fn a_secret_is_created_once_and_is_private() {
        let file = std::env::temp_dir().join(format!("xtask-secret-{}", std::process::id()));
        let first = read_or_create(&file, "").unwrap();
        let again = read_or_create(&file, "").unwrap();
        assert_eq!((first.len(), &first), (48, &again));
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(&file).unwrap();
    }
}
