//! A secret of the configuration.

use std::io::{self, Read as _};
use std::path::PathBuf;

/// Longer than any key or token; a file that is longer was named by mistake.
const MAX_LEN: u64 = 64 * 1024;

/// A key or token, given as a value or as a file that holds it.
///
/// It has no `Debug` and no `Display`, so that it reaches neither logs nor errors. A file is read
/// at every use: it may be written after the server has started and may change while it runs, and
/// a small file costs microseconds next to the request that the secret is for.
pub struct Secret(Source);

enum Source {
    Value(String),
    File(PathBuf),
    None,
}

impl Secret {
    /// The secret of two options, of which the value goes before the file. Blank ones count as not
    /// given: compose files pass unset variables on as empty ones.
    pub fn new(value: Option<String>, file: Option<PathBuf>) -> Self {
        let value = value.map(|value| value.trim().to_owned());
        Self(match (value, file) {
            (Some(value), _) if !value.is_empty() => Source::Value(value),
            (_, Some(file)) if !file.as_os_str().is_empty() => Source::File(file),
            _ => Source::None,
        })
    }

    /// The secret without surrounding white space; `None` where none is configured or the file is
    /// still empty.
    ///
    /// # Errors
    /// When there is a file but it cannot be read (yet) or cannot be a secret.
    pub fn get(&self) -> io::Result<Option<String>> {
        let text = match &self.0 {
            Source::Value(value) => return Ok(Some(value.clone())),
            Source::None => return Ok(None),
            Source::File(path) => {
                let mut text = String::new();
                let mut file = std::fs::File::open(path)?.take(MAX_LEN + 1);
                file.read_to_string(&mut text)?;
                text
            }
        };
        if text.len() as u64 > MAX_LEN {
            let reason = format!("the file is larger than {MAX_LEN} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        let text = text.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// True where a value or a file was given, whether or not the file is there yet.
    pub fn is_configured(&self) -> bool {
        !matches!(self.0, Source::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_before_a_file_and_blank_is_nothing() {
        let secret = Secret::new(Some(" key\n".into()), Some("/nowhere".into()));
        assert_eq!(secret.get().unwrap().as_deref(), Some("key"));
        let secret = Secret::new(Some(" ".into()), Some("".into()));
        assert_eq!(secret.get().unwrap(), None);
        assert!(!secret.is_configured());
    }

    #[test]
    fn a_file_may_come_and_change_later() {
        let path = std::env::temp_dir().join(format!("mcp-serve-secret-{}", std::process::id()));
        let secret = Secret::new(None, Some(path.clone()));
        assert_eq!(secret.get().unwrap_err().kind(), io::ErrorKind::NotFound);
        for key in ["first", "second"] {
            std::fs::write(&path, format!("{key}\n")).unwrap();
            assert_eq!(secret.get().unwrap().as_deref(), Some(key));
        }
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(
            secret.get().unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        std::fs::remove_file(&path).unwrap();
    }
}
