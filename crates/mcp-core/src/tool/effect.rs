//! What a call does to the service.

use serde_json::{Value, json};

/// What a call does to the service; required of every tool, so that it cannot be forgotten.
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
    /// May lose data in some calls, and has others that lose nothing: a preview, a new file.
    PartlyDestructive,
}

impl Effect {
    /// Reads the annotations of another server's tool; without any, assumes the worst
    /// (specification, `ToolAnnotations`).
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
