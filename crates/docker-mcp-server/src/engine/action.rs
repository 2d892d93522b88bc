//! Changes, in the words that their failures are told with.

use std::time::Duration;

/// The kinds of objects that an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Container,
    Image,
    Network,
    Volume,
}

/// A change that an engine is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action<'a> {
    /// An infinitive.
    pub(super) verb: &'static str,
    /// The object that is changed, by the name that the caller gave.
    pub(super) name: &'a str,
    /// The object that may not exist: mostly the same.
    pub(super) needs: (Kind, &'a str),
    /// How long it takes by itself, beside the time that any reply may take.
    pub(crate) duration: Duration,
}

impl<'a> Action<'a> {
    /// To `verb` the object `name`.
    pub(crate) fn new(verb: &'static str, kind: Kind, name: &'a str) -> Self {
        Self {
            verb,
            name,
            needs: (kind, name),
            duration: Duration::ZERO,
        }
    }

    /// The same, where another object may be the one that does not exist.
    pub(crate) fn with_need(self, kind: Kind, name: &'a str) -> Self {
        Self {
            needs: (kind, name),
            ..self
        }
    }

    /// The same, where it takes so long by itself.
    pub(crate) fn with_duration(self, duration: Duration) -> Self {
        Self { duration, ..self }
    }
}
