//! Errors of a configuration.

use std::fmt;

use toml::de::DeTable;

/// An error in the configuration. Contains no value of it, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The file, or the option of the command line.
    pub(crate) origin: String,
    /// The line, counted from 1, if it is known.
    pub(crate) line: Option<usize>,
    /// The field, such as `backends.docker.timeout`; empty if it is not known.
    pub(crate) field: String,
    /// The error, and the expected value.
    pub(crate) problem: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// An error in one field, without its file and line.
pub(super) struct Problem {
    pub(super) field: Vec<String>,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(field: &[&str], text: impl Into<String>) -> Self {
        Self {
            field: field.iter().map(|&part| part.to_owned()).collect(),
            text: text.into(),
        }
    }

    pub(super) fn at(self, origin: &str, line: Option<usize>) -> ConfigError {
        ConfigError {
            origin: origin.to_owned(),
            line,
            field: self.field.join("."),
            problem: self.text,
        }
    }
}

/// Returns the line of a byte, counted from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// Returns the line of a field, counted from 1; the line of its table if the field is absent.
pub(super) fn line_of(text: &str, field: &[String]) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let mut table = Some(file.get_ref());
    let mut at = None;
    for part in field {
        let found = table?.iter().find(|(key, _)| *key.get_ref() == *part);
        let Some((key, value)) = found else { break };
        at = Some(key.span().start);
        table = value.get_ref().as_table();
    }
    at.map(|at| line_at(text, at))
}
