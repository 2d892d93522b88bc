//! Imports and helpers of the tools.

pub(super) use std::collections::{BTreeMap, BTreeSet};
pub(super) use std::time::Duration;

pub(super) use crate::engine::{
    ContainerDetails, ContainerName, ContainerSummary, Engine, EngineError, ImageName, ObjectKind,
    ObjectName, Path,
};
pub(super) use crate::json::{items, text, texts};
pub(super) use futures_util::{StreamExt as _, stream};
pub(super) use mcp_core::tool::{
    Bounded, Call, Effect, TaskSupport, Tool, ToolError, ToolErrorKind,
};
pub(super) use schemars::JsonSchema;
pub(super) use serde::{Deserialize, Serialize};
pub(super) use serde_json::{Map, Value, json};
pub(super) use serde_with::skip_serializing_none;
pub(super) use upstream::redact::{Redactor, has_hidden_value};
pub(super) use upstream::text::{fitting, newest_lines, truncate, truncate_list};
pub(super) use upstream::time::rfc3339;

pub(super) use crate::deadline::{Deadline, Seconds, cancelled};
pub(super) use crate::docker::{Action, Docker, Object};

use std::fmt::Display;

/// The first 12 characters of an id, which is the form in which Docker shows it.
pub(super) fn short_id(id: &str) -> &str {
    let id = id.trim_start_matches("sha256:");
    id.get(..12).unwrap_or(id)
}

/// Bytes of rows in an answer, which contains them twice.
const MAX_ROW_BYTES: usize = 6_500;

/// The first rows that fit into an answer, at least one, and the number of the others if there are any.
pub(super) fn fit<T: Serialize>(mut rows: Vec<T>) -> (Vec<T>, Option<usize>) {
    let count = rows.len();
    let shown = fitting(rows.iter().collect(), MAX_ROW_BYTES).rows.len();
    rows.truncate(shown.max(1));
    let omitted = positive(count - rows.len());
    (rows, omitted)
}

/// The rows from `offset` on that fit into an answer, the number of those after them, and how to get these.
pub(super) fn page<T: Serialize>(
    rows: impl IntoIterator<Item = T>,
    offset: Option<u32>,
    limit: usize,
) -> (Vec<T>, Option<usize>, Option<String>) {
    let offset = offset.unwrap_or(0) as usize;
    let mut rows = rows.into_iter().skip(offset);
    let (shown, omitted) = fit(rows.by_ref().take(limit).collect());
    let omitted = omitted.unwrap_or(0) + rows.count();
    let next = offset + shown.len();
    let note = format!("Pass offset: {next} for the next ones.");
    let omitted = positive(omitted);
    (shown, omitted, omitted.map(|_| note))
}

/// Bytes beyond those of a text that are shown: a secret is known by all of it, also where the text is cut.
pub(super) const SECRET_MARGIN_BYTES: usize = 16 << 10;

/// Bytes of a text in an answer, which contains it as JSON, and that JSON as a text.
pub(super) fn weight(text: &str) -> usize {
    let json = Value::from(text).to_string();
    let escaped = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\'));
    2 * json.len() + escaped.count()
}

/// `None` for zero: the member is left out of the answer.
pub(super) fn positive(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}

/// The result of work that comes to its end also if the caller leaves.
pub(super) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::spawn(work).await;
    let lost = |error| ToolError::upstream("The work broke off.").caused_by(error);
    done.map_err(lost)?
}

/// Errors when a text that is to be written, or run, has [`HIDDEN`](upstream::redact::HIDDEN) in the place of a value, as
/// tools show secrets: it would replace the secret. Each text comes with the name of its field.
pub(super) fn refuse_hidden<'a>(
    docker: &Docker,
    texts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), ToolError> {
    let mut texts = texts.into_iter();
    match texts.find(|(_, text)| docker.redact && has_hidden_value(text)) {
        None => Ok(()),
        Some((field, _)) => Err(ToolError::invalid_argument(format!(
            "{field} has `***` in the place of a value, as a tool has shown it: the secret there would be lost. Nothing \
             was done. Give the whole value, or change the rest where it is."
        ))),
    }
}

/// The names and the values of a map of texts.
pub(super) fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(name, value)| (&**name, &**value))
}

const MAX_LABEL: usize = 200;

/// The labels with their values redacted, at most `max`.
pub(super) fn redacted_labels(
    labels: &BTreeMap<String, String>,
    max: usize,
    redactor: &Redactor,
) -> BTreeMap<String, String> {
    let labels = labels.iter().take(max);
    let value = |key, value| truncate(&redactor.named(key, value), MAX_LABEL);
    let labels = labels.map(|(key, label)| (redactor.text(key), value(key, label)));
    labels.collect()
}

/// A change that was made.
#[skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ObjectChange {
    name: String,
    /// `created`, `removed`, `connected`, …
    done: &'static str,
    note: Option<String>,
}

impl ObjectChange {
    pub(super) fn new(name: impl Display, done: &'static str) -> Self {
        Self {
            name: name.to_string(),
            done,
            note: None,
        }
    }

    pub(super) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}
