//! A problem of the configuration.

use std::fmt;

/// A problem of the configuration. Contains no value of it, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file with its line, the variable or the flag; empty if it is not known.
    pub place: String,
    /// The key in the file; empty if it is not known.
    pub field: String,
    /// The problem, and what to do.
    pub text: String,
}

impl Problem {
    /// A problem of which only the text is known, which names the option.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            place: String::new(),
            field: String::new(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.place, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.text)
    }
}
