//! Invalid parameters, and the limit of what an error repeats of a request.

use serde_json::Value;

/// A parameter that is invalid.
#[derive(Debug, Default)]
pub struct BadParam {
    /// Its path; empty if the parameters as a whole are invalid.
    pub field: String,
    /// The fault, in words.
    pub reason: String,
    /// The JSON Schema that it should match, if that is known.
    pub schema: Option<Box<Value>>,
}

impl BadParam {
    /// `field` is invalid because of `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
            schema: None,
        }
    }

    /// One line that names the field, unless the reason already does.
    pub fn line(&self) -> String {
        let Self { field, reason, .. } = self;
        truncated(match field.is_empty() || reason.contains(field) {
            true => reason.clone(),
            false => format!("{field}: {reason}"),
        })
    }
}

/// Bytes of a request that its error repeats: enough to recognise it.
const MAX_QUOTE: usize = 1000;

/// Truncates text that may come from the peer: a request of megabytes must not be answered with
/// megabytes.
pub(crate) fn truncated(mut text: String) -> String {
    if text.len() > MAX_QUOTE {
        text.truncate(text.floor_char_boundary(MAX_QUOTE));
        text.push('…');
    }
    text
}
