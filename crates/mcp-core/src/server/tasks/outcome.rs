//! The outcome of a task, after which it does not change.

use std::sync::Arc;

use serde_json::Value;

use crate::era::Era;
use crate::error::{Error, ErrorCodes, truncated};
use crate::jsonrpc::Json;
use crate::server::outcome::{MethodResult, Outcome};
use crate::server::tool_result::failed;
use crate::tool::{ToolError, ToolErrorKind};

/// The largest result that is stored.
const MAX_RESULT_BYTES: usize = 8 * 1024 * 1024;

#[derive(Clone)]
pub(super) enum TaskOutcome {
    /// The result of the call, also of a failed tool.
    Result { json: Json, is_error: bool },
    /// The error of the call.
    Error(Arc<Error>),
    /// Cancelled by its caller, or because the server stops.
    Cancelled,
}

impl TaskOutcome {
    /// The outcome of a call. A result that is too large to store becomes an error message.
    pub(super) fn from_outcome(outcome: Result<Outcome, Error>) -> Self {
        let outcome = match outcome {
            Ok(Outcome::Done(result)) => Ok(result),
            // A task waits for answers; it never ends with questions.
            Ok(Outcome::NeedsInput(_)) => Err(Error::Internal),
            Err(error) => Err(error),
        };
        let outcome = outcome.map(|outcome| match outcome.json.as_str().len() {
            size if size > MAX_RESULT_BYTES => failed(&format!(
                "The result has {size} bytes, but a task keeps at most {MAX_RESULT_BYTES}; \
                 request less at once."
            )),
            _ => outcome,
        });
        match outcome {
            Ok(MethodResult { json, is_error, .. }) => Self::Result {
                json: json.shared(),
                is_error,
            },
            Err(error) => Self::Error(Arc::new(error)),
        }
    }

    /// The outcome of a task that has expired.
    pub(super) fn expired() -> Self {
        let message = "The task ran longer than its time to live (ttl).";
        let error = ToolError::new(ToolErrorKind::Timeout, message);
        Self::Error(Arc::new(Error::ToolFailed(error)))
    }

    /// The outcome of a task whose process has ended.
    pub(super) fn lost() -> Self {
        let message = "The server process that ran this task has ended, and the task with it. Check whether it took \
            effect, and call again.";
        let error = ToolError::new(ToolErrorKind::Interrupted, message);
        Self::Error(Arc::new(Error::ToolFailed(error)))
    }

    pub(super) fn message(&self) -> Option<String> {
        match self {
            Self::Result { json, is_error } => is_error.then(|| first_text(json)).flatten(),
            Self::Error(error) => Some(error.render(Era::Modern, ErrorCodes::Spec).message),
            Self::Cancelled => Some("The task was cancelled.".to_owned()),
        }
    }

    /// The stored bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Result { json, .. } => json.as_str().len(),
            Self::Error(_) | Self::Cancelled => 0,
        }
    }
}

/// The message of a failed tool.
fn first_text(result: &Json) -> Option<String> {
    let result: Value = serde_json::from_str(result.as_str()).ok()?;
    let text = result.pointer("/content/0/text")?.as_str()?;
    Some(truncated(text.to_owned()))
}
