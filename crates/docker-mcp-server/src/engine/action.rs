//! Descriptions of changes, for the error texts.

/// The kinds of objects that an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Container,
    Image,
    Network,
    Volume,
}

/// A change that the engine is asked to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action<'a> {
    /// An infinitive.
    pub(super) verb: &'static str,
    /// The changed object, by the name that the caller gave.
    pub(super) name: &'a str,
    /// The object that may be missing: mostly the same.
    pub(crate) needs: (ObjectKind, &'a str),
}

impl<'a> Action<'a> {
    /// To `verb` the object `name`.
    pub(crate) fn new(verb: &'static str, kind: ObjectKind, name: &'a str) -> Self {
        Self {
            verb,
            name,
            needs: (kind, name),
        }
    }

    /// To `verb` the container `name`.
    pub(crate) fn on_container(verb: &'static str, name: &'a str) -> Self {
        Self::new(verb, ObjectKind::Container, name)
    }

    /// Sets the object that may be missing, if it is another one.
    pub(crate) fn with_required(self, kind: ObjectKind, name: &'a str) -> Self {
        Self {
            needs: (kind, name),
            ..self
        }
    }
}
