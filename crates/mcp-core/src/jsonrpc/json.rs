//! Text that is valid JSON.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

/// One serialised JSON value.
///
/// Lists and definitions are shared between all responses; the result of a call belongs to its one
/// response.
#[derive(Clone, Debug)]
pub enum Json {
    /// Sent in one message.
    Owned(String),
    /// Sent in many messages.
    Shared(Arc<str>),
}

impl Json {
    /// Serialises `value`.
    ///
    /// # Errors
    /// A `Serialize` implementation fails, or a map has a key that is not a string.
    pub fn from_serializable(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(Self::Owned)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Owned(text) => text,
            Self::Shared(text) => text,
        }
    }

    /// Makes clones cheap.
    #[must_use]
    pub fn shared(self) -> Self {
        match self {
            Self::Owned(text) => Self::Shared(text.into()),
            shared @ Self::Shared(_) => shared,
        }
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self::Owned(raw.get().to_owned())
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::Owned(value.to_string())
    }
}
