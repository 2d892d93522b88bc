//! The kinds of objects that an engine has.

use crate::engine::error::EngineError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Container,
    Image,
    Network,
    Volume,
}

impl ObjectKind {
    /// Its word in the engine's messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Image => "image",
            Self::Network => "network",
            Self::Volume => "volume",
        }
    }

    /// Whether the engine reports that this object is missing. A request may also fail because of
    /// another object: a network is connected to a container.
    pub(crate) fn is_missing(self, failure: &EngineError) -> bool {
        let EngineError::Refused {
            status: 404,
            message,
        } = failure
        else {
            return false;
        };
        let message = message.to_ascii_lowercase();
        let word = self.word();
        message.contains(&format!("no such {word}"))
            || (message.contains(word) && message.contains("not found"))
    }
}
