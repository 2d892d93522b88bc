//! The result of a change of an image, a network or a volume.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

/// A change that was made.
#[skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ObjectChange {
    name: String,
    /// `created`, `removed`, `connected`, …
    done: &'static str,
    note: Option<String>,
}

impl ObjectChange {
    pub(super) fn new(name: impl Display, done: &'static str) -> Self {
        Self {
            name: name.to_string(),
            done,
            note: None,
        }
    }

    pub(super) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}
