//! The effect of a tool on its service.

use serde_json::{Value, json};

/// The effect of a call on the service; every tool must declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Only adds: a new run, a new container. Repeating it adds again.
    Additive,
    /// Changes something; repeating it changes nothing more.
    Idempotent,
    /// May lose data.
    Destructive,
    /// Some calls may lose data, others lose nothing: a preview, a new file.
    PartlyDestructive,
}

impl Effect {
    /// Reads the annotations of another server's tool; absent ones have the defaults of the
    /// specification, which assume the worst (`ToolAnnotations`).
    pub(super) fn from_annotations(annotations: &Value) -> Self {
        let is = |name: &str, default: bool| annotations[name].as_bool().unwrap_or(default);
        if is("readOnlyHint", false) {
            Self::ReadOnly
        } else if is("destructiveHint", true) {
            Self::Destructive
        } else if is("idempotentHint", false) {
            Self::Idempotent
        } else {
            Self::Additive
        }
    }

    /// The tool annotations of the specification (2025-03-26, `ToolAnnotations`).
    pub fn annotations(self) -> Value {
        match self {
            Self::ReadOnly => json!({"readOnlyHint": true}),
            Self::Additive => json!({"readOnlyHint": false, "destructiveHint": false}),
            Self::Idempotent => {
                json!({"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true})
            }
            Self::Destructive | Self::PartlyDestructive => {
                json!({"readOnlyHint": false, "destructiveHint": true})
            }
        }
    }
}
