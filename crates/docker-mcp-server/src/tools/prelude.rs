//! Imports and helpers of every tool.

pub(super) use mcp_core::tool::{
    Bounded, Call, Effect, TaskSupport, Tool, ToolError, ToolErrorKind,
};
pub(super) use schemars::JsonSchema;
pub(super) use serde::{Deserialize, Serialize};
pub(super) use serde_with::skip_serializing_none;
use upstream::text::{Fitting, fitting};

pub(super) use crate::docker::Docker;
pub(super) use crate::engine::{Action, ContainerDetails, ObjectKind};
pub(super) use crate::name::{ContainerName, ImageName, ObjectName};

/// As many of the first rows as fit into `max` bytes of JSON, and the number of the others.
pub(super) fn fit<T: Serialize>(rows: Vec<T>, max: usize) -> (Vec<T>, usize) {
    let Fitting { rows, omitted } = fitting(rows, max);
    (rows, omitted)
}

/// The state of an object does not allow what is asked for.
pub(super) fn conflict(text: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Conflict, text)
}
