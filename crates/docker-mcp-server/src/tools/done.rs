//! What is said about a change that was made to something that is no container.

use std::fmt::Display;

use super::prelude::*;

/// A change that was made.
#[skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Done {
    name: String,
    /// `created`, `removed`, `connected`, …
    done: &'static str,
    note: Option<String>,
}

impl Done {
    pub(super) fn new(name: impl Display, done: &'static str) -> Self {
        Self {
            name: name.to_string(),
            done,
            note: None,
        }
    }

    pub(super) fn with_note(self, note: impl Into<String>) -> Self {
        Self {
            note: Some(note.into()),
            ..self
        }
    }
}
