//! Imports and helpers of the tools.

pub(super) use std::collections::BTreeMap;
pub(super) use std::time::Duration;

pub(super) use docker_engine::{
    ContainerDetails, ContainerName, ImageName, ObjectKind, ObjectName, Path,
};
pub(super) use futures_util::StreamExt as _;
pub(super) use mcp_core::tool::{
    Bounded, Call, Effect, TaskSupport, Tool, ToolError, ToolErrorKind,
};
pub(super) use schemars::JsonSchema;
pub(super) use serde::{Deserialize, Serialize};
pub(super) use serde_with::skip_serializing_none;
pub(super) use upstream::redact::Redactor;
pub(super) use upstream::text::{fitting, newest_lines, truncate};
pub(super) use upstream::time::rfc3339;

pub(super) use super::object_change::ObjectChange;
pub(super) use crate::docker::{Action, Docker};

/// The first 12 characters of an id, which is the form in which Docker shows it.
pub(super) fn short_id(id: &str) -> &str {
    let id = id.trim_start_matches("sha256:");
    id.get(..12).unwrap_or(id)
}

/// The first rows that fit into `max` bytes of JSON, and the number of the others if there are any.
pub(super) fn fit<T: Serialize>(rows: Vec<T>, max: usize) -> (Vec<T>, Option<usize>) {
    let fitting = fitting(rows, max);
    (fitting.rows, positive(fitting.omitted))
}

/// Bytes of rows in an answer, which contains them twice, without and with a limit of the caller.
pub(super) const DEFAULT_ROW_BYTES: usize = 6_500;
const MAX_ROW_BYTES: usize = 128 << 10;

/// The first rows, at most `limit` of the caller or `default`, and the number of the others.
pub(super) fn first_rows<T: Serialize>(
    rows: impl ExactSizeIterator<Item = T>,
    limit: Option<Bounded<1, 500>>,
    default: usize,
) -> (Vec<T>, Option<usize>) {
    let count = rows.len();
    let (most, bytes) = match limit {
        Some(limit) => (limit.get() as usize, MAX_ROW_BYTES),
        None => (default, DEFAULT_ROW_BYTES),
    };
    let shown = fitting(rows.take(most).collect(), bytes).rows;
    let omitted = positive(count - shown.len());
    (shown, omitted)
}

/// `None` for zero: the member is left out of the answer.
pub(super) fn positive(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}

/// The error of a call that the state of an object does not allow.
pub(super) fn conflict(text: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Conflict, text)
}

/// The error of a cancelled call; the caller does not receive it.
pub(super) fn cancelled() -> ToolError {
    ToolError::new(ToolErrorKind::Cancelled, "Cancelled by the caller.")
}

/// The labels with their values redacted, at most `max`.
pub(super) fn redacted_labels(
    labels: &BTreeMap<String, String>,
    max: usize,
    redactor: &Redactor,
) -> BTreeMap<String, String> {
    let labels = labels.iter().take(max);
    let labels = labels.map(|(key, value)| (key.clone(), redactor.named(key, value)));
    labels.collect()
}

/// Truncates the beginning of `text` to about `max` bytes once it is twice as long.
pub(super) fn keep_end(text: &mut String, max: usize) {
    if text.len() > 2 * max {
        let from = text.ceil_char_boundary(text.len() - max);
        text.drain(..from);
    }
}
