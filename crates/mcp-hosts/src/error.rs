//! The reasons why a file is not changed.

use std::fmt;
use std::path::PathBuf;

/// Why a file is not changed. Nothing was written.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// The line with the fault, from 1.
    pub line: Option<usize>,
    /// The reason, and what to do.
    pub reason: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for Error {}

/// A fault in the text of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) line: Option<usize>,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            line: None,
            reason: reason.into(),
        }
    }

    pub(crate) fn at(path: PathBuf) -> impl FnOnce(Self) -> Error {
        |fault| Error {
            path,
            line: fault.line,
            reason: fault.reason,
        }
    }
}
