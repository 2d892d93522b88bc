//! Errors of a start whose outcome is uncertain: the task may or may not have been created.

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{Instant, timeout_at};

use crate::api::TaskId;

/// Runs the start of a task, but not beyond `answer_by`.
///
/// # Errors
/// The error of the start, or a timeout, after which the outcome is uncertain.
pub(super) async fn start_before<T>(
    answer_by: Instant,
    id: TaskId,
    start: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    timeout_at(answer_by, start).await.unwrap_or_else(|_| {
        let message = "OpenHands takes too long to start the task.";
        Err(uncertain(
            id,
            ToolError::new(ToolErrorKind::Timeout, message),
        ))
    })
}

/// The error for a start with an uncertain outcome; `error` is the reason.
pub(super) fn uncertain(id: TaskId, error: ToolError) -> ToolError {
    let message = format!(
        "{} It is not known whether the task was started: call get_task_status with task_id {id} \
         before you run it again.",
        error.message()
    );
    ToolError::new(error.kind(), message).caused_by(error)
}
