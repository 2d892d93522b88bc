//! What is wrong with a configuration.

use std::fmt;

/// What is wrong, and where. Holds no value of the configuration, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The file, or the option of the command line.
    pub(crate) place: String,
    /// The line, counted from 1, where it is known.
    pub(crate) line: Option<usize>,
    /// The field, like `backends.docker.timeout`; empty where it is not known.
    pub(crate) field: String,
    /// What is wrong with it, and what would be right.
    pub(crate) problem: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// What is wrong with one field, before it is known where that stands.
pub(super) struct Problem {
    pub(super) field: Vec<String>,
    pub(super) what: String,
}

impl Problem {
    pub(super) fn new(field: &[&str], what: impl Into<String>) -> Self {
        Self {
            field: field.iter().map(|&part| part.to_owned()).collect(),
            what: what.into(),
        }
    }

    pub(super) fn at(self, place: &str, line: Option<usize>) -> ConfigError {
        ConfigError {
            place: place.to_owned(),
            line,
            field: self.field.join("."),
            problem: self.what,
        }
    }
}
