//! A secret of the configuration: a value or a file.

use std::io::{self, Read as _};
use std::path::PathBuf;

/// Larger than any key or token; a larger file was configured by mistake.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// A key or token, given as a value or as a file that holds it.
///
/// Has no `Debug` and no `Display`, so that it appears neither in logs nor in errors. A file is read at
/// every use: it may be written after the start of the server and may change later, and reading a small
/// file takes microseconds, far less than the request that needs the secret.
pub struct Secret(Source);

enum Source {
    Value(String),
    File(PathBuf),
    None,
}

impl Secret {
    /// Creates the secret from two options; the value takes precedence over the file. Blank ones count
    /// as unset: compose files pass unset variables as empty ones.
    pub fn new(value: Option<String>, file: Option<PathBuf>) -> Self {
        let value = value.map(|value| value.trim().to_owned());
        Self(match (value, file) {
            (Some(value), _) if !value.is_empty() => Source::Value(value),
            (_, Some(file)) if !file.as_os_str().is_empty() => Source::File(file),
            _ => Source::None,
        })
    }

    /// Returns the secret without surrounding white space; `None` if it is not configured or the file is
    /// empty.
    ///
    /// # Errors
    /// If the file cannot be read (yet) or is too large for a secret.
    pub fn get(&self) -> io::Result<Option<String>> {
        let text = self.text()?;
        let text = text.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// Returns the value or the whole text of the file; empty if it is not configured.
    pub(crate) fn text(&self) -> io::Result<String> {
        let path = match &self.0 {
            Source::Value(value) => return Ok(value.clone()),
            Source::None => return Ok(String::new()),
            Source::File(path) => path,
        };
        let mut text = String::new();
        let mut file = std::fs::File::open(path)?.take(MAX_SECRET_BYTES + 1);
        file.read_to_string(&mut text)?;
        if text.len() as u64 > MAX_SECRET_BYTES {
            let reason = format!("the file is larger than {MAX_SECRET_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        // Editors of Windows begin files with a byte order mark.
        Ok(match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
    }

    /// Returns true if the secret comes from a file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.0, Source::File(_))
    }

    /// Returns true if a value or a file is configured, even if the file does not exist yet.
    pub fn is_configured(&self) -> bool {
        !matches!(self.0, Source::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_takes_precedence_over_file_and_blank_is_unset() {
        let secret = Secret::new(Some(" key\n".into()), Some("/nowhere".into()));
        assert_eq!(secret.get().unwrap().as_deref(), Some("key"));
        let secret = Secret::new(Some(" ".into()), Some("".into()));
        assert_eq!(secret.get().unwrap(), None);
        assert!(!secret.is_configured());
    }

    #[test]
    fn file_may_be_written_and_changed_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = Secret::new(None, Some(path.clone()));
        assert_eq!(secret.get().unwrap_err().kind(), io::ErrorKind::NotFound);
        for (text, key) in [("first\n", "first"), ("\u{feff}second\r\n", "second")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(secret.get().unwrap().as_deref(), Some(key));
        }
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(
            secret.get().unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
    }
}
