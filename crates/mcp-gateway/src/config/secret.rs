//! A value that may be a secret.

use std::io;
use std::path::PathBuf;

/// A header, a token or an environment variable of a backend, given as text or as a file.
///
/// It has no `Debug` and no `Display`, so that it reaches neither logs nor errors. A file is read at
/// every connection, so a changed secret needs no restart.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    Text(String),
    File(PathBuf),
}

impl Secret {
    /// Returns the value; that of a file is trimmed.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or cannot be a secret.
    pub(crate) fn read(&self) -> io::Result<String> {
        let path = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::File(path) => path.clone(),
        };
        let secret = mcp_serve::Secret::new(None, Some(path)).get()?;
        secret.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file is empty"))
    }
}
