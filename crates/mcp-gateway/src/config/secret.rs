//! A value that may be secret.

use std::io;
use std::path::PathBuf;

/// A header, a token or an environment variable of a backend, given as text or as a file.
///
/// It has no `Debug` and no `Display`, so that it reaches neither logs nor errors. A file is read at
/// every use: whoever changes it has it used from the next connection on.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Text(String),
    File(PathBuf),
}

impl Secret {
    pub(super) fn text(text: String) -> Self {
        Self(Source::Text(text))
    }

    pub(super) fn file(path: PathBuf) -> Self {
        Self(Source::File(path))
    }

    /// The value; that of a file without surrounding white space.
    ///
    /// # Errors
    /// When there is a file but it cannot be read, is empty, or cannot be a secret.
    pub(crate) fn read(&self) -> io::Result<String> {
        let path = match &self.0 {
            Source::Text(text) => return Ok(text.clone()),
            Source::File(path) => path.clone(),
        };
        let secret = mcp_serve::Secret::new(None, Some(path)).get()?;
        secret.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file is empty"))
    }
}
