//! Errors of the start of a task.

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{Instant, timeout_at};

use crate::api::{ApiFailure, TaskId};

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

/// The error for a call whose time is over while another one starts the task.
pub(super) fn being_started(id: TaskId) -> ToolError {
    let message = format!(
        "Another call with this idempotency_key is starting the task: call get_task_status with \
         task_id {id}, or repeat this call."
    );
    ToolError::new(ToolErrorKind::Timeout, message)
}

/// The error for a task without a slot.
pub(super) fn no_slot(error: ApiFailure, has_key: bool) -> ToolError {
    let error = ToolError::from(error);
    let again = match has_key {
        true => "Repeat this call with the same idempotency_key",
        false => "Run it again",
    };
    let message = format!(
        "All slots for running tasks are taken, and the task was not started. {again} when a task has \
         ended, or stop one with cancel_task."
    );
    ToolError::new(error.kind(), message).caused_by(error)
}
