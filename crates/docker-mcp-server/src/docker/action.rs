//! Changes that the engine is asked to make, and the words of their failure.

use mcp_core::tool::{ToolError, ToolErrorKind};

use crate::engine::{Engine, EngineError, ObjectKind};

/// A change that the engine is asked to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action<'a> {
    /// An infinitive.
    verb: &'static str,
    /// The changed object, by the name that the caller gave.
    name: &'a str,
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

    /// The tool error. A timeout or a broken connection leaves open whether the change happens.
    pub(super) fn explain(&self, engine: &Engine, failure: EngineError) -> ToolError {
        let Self { verb, name, .. } = self;
        let rest = "It may still happen: check with get_container before repeating.";
        match failure {
            EngineError::Timeout(limit) => {
                let seconds = limit.as_secs();
                let text = format!(
                    "The Docker Engine did not confirm within {seconds} s the request to {verb} \
                     `{name}`. {rest}"
                );
                ToolError::new(ToolErrorKind::Timeout, text)
            }
            EngineError::Unreadable(source) => {
                let text = format!(
                    "The connection broke while the Docker Engine was asked to {verb} `{name}`. \
                     {rest}"
                );
                ToolError::upstream(text).caused_by(source)
            }
            failure => engine.explain(failure),
        }
    }
}
