//! How a task ends. Nothing changes after that.

use std::sync::Arc;

use serde_json::Value;

use crate::era::Era;
use crate::error::{Error, ErrorCodes, truncated};
use crate::jsonrpc::Json;
use crate::server::outcome::{MethodResult, Outcome};
use crate::server::tool_result::failed;
use crate::tool::{ToolError, ToolErrorKind};

/// The largest result that is kept, in bytes.
const MAX_RESULT: usize = 8 * 1024 * 1024;

#[derive(Clone)]
pub(super) enum TaskOutcome {
    /// With the result of the call; a tool may say in it that it failed.
    Result { json: Json, is_error: bool },
    /// With the error that the request would have been answered with.
    Error(Arc<Error>),
    /// By its caller, or because the server stops.
    Cancelled,
}

impl TaskOutcome {
    /// What a request would be answered with. A result that is too large to be kept becomes one
    /// that says so.
    pub(super) fn from_outcome(outcome: Result<Outcome, Error>) -> Self {
        let outcome = match outcome {
            Ok(Outcome::Done(result)) => Ok(result),
            // A task waits for answers; it never ends with questions.
            Ok(Outcome::NeedsInput(_)) => Err(Error::Internal),
            Err(error) => Err(error),
        };
        let outcome = outcome.map(|outcome| match outcome.json.as_str().len() {
            size if size > MAX_RESULT => failed(&format!(
                "The result has {size} bytes, but a task keeps at most {MAX_RESULT}; ask for less at once."
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

    /// Its time is over.
    pub(super) fn expired() -> Self {
        let message = "The task took longer than it is kept.";
        let error = ToolError::new(ToolErrorKind::Timeout, message);
        Self::Error(Arc::new(Error::ToolFailed(error)))
    }

    /// The status message that goes with it.
    pub(super) fn message(&self) -> Option<String> {
        match self {
            Self::Result { json, is_error } => is_error.then(|| first_text(json)).flatten(),
            Self::Error(error) => Some(error.render(Era::Modern, ErrorCodes::Spec).message),
            Self::Cancelled => Some("The task was cancelled.".to_owned()),
        }
    }

    /// Bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Result { json, .. } => json.as_str().len(),
            Self::Error(_) | Self::Cancelled => 0,
        }
    }
}

/// What a failed tool said.
fn first_text(result: &Json) -> Option<String> {
    let result: Value = serde_json::from_str(result.as_str()).ok()?;
    let text = result.pointer("/content/0/text")?.as_str()?;
    Some(truncated(text.to_owned()))
}
