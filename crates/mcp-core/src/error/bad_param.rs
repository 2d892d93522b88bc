//! The parameter at fault, and how much of it is repeated to the peer.

use serde_json::Value;

/// The parameter at fault.
#[derive(Debug, Default)]
pub struct BadParam {
    /// Its path; empty where it is the parameters as a whole.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
    /// What it should have been, as JSON Schema, where that is known.
    pub schema: Option<Box<Value>>,
}

impl BadParam {
    /// `field` is at fault because of `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
            schema: None,
        }
    }

    /// One line that names the field, unless the reason does already.
    pub fn line(&self) -> String {
        clipped(
            if self.field.is_empty() || self.reason.contains(&self.field) {
                self.reason.clone()
            } else {
                format!("{}: {}", self.field, self.reason)
            },
        )
    }
}

/// Bytes of what a peer said when it is repeated to it: enough to know it by.
const MAX_QUOTE: usize = 1000;

/// A request of megabytes must not be answered with megabytes.
pub(crate) fn clipped(mut text: String) -> String {
    if text.len() > MAX_QUOTE {
        text.truncate(text.floor_char_boundary(MAX_QUOTE));
        text.push('…');
    }
    text
}
