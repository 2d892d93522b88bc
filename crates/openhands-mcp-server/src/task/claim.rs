//! The wait for a task that another call starts. Calls of this server wait for each other (`scheduler::starts`), those of
//! replicas see a [`crate::api::Claim`].

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep};

use crate::api::TaskId;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits before the next look at a task that another replica starts.
pub(super) async fn wait_for_other(id: TaskId, answer_by: Instant) -> Result<(), ToolError> {
    if Instant::now() + POLL_INTERVAL > answer_by {
        return Err(being_started(id));
    }
    sleep(POLL_INTERVAL).await;
    Ok(())
}

/// The error for a call whose time is over while another one starts the task.
pub(super) fn being_started(id: TaskId) -> ToolError {
    let message = format!(
        "Another call with this idempotency_key is starting the task: call get_task_status with \
         task_id {id}, or repeat this call."
    );
    ToolError::new(ToolErrorKind::Timeout, message)
}
