//! Following a task on behalf of a user who can be asked.

use mcp_core::tool::{Call, ToolError};

use super::arguments::Patience;
use crate::OpenHands;
use crate::report::Report;
use crate::task_id::TaskId;

/// Follows a task until it settles or the wait is over. Whenever its agent asks for a permission,
/// the user answers, where the client can ask them and the wait goes on after that.
///
/// # Errors
/// When the caller gave up; the task is then stopped. Also to end this round of the call.
pub(super) async fn follow(
    service: &OpenHands,
    id: TaskId,
    mut patience: Patience,
    call: &Call,
) -> Result<Report, ToolError> {
    loop {
        let seen = service.follow(id, patience.until, call).await?;
        if seen.task.as_ref().is_some_and(|task| task.is_asking()) {
            let answer = tokio::select! {
                biased;
                // Following it once more stops it.
                () = call.cancelled() => continue,
                answer = service.ask_user(id, call) => answer?,
            };
            // People take their time: the wait for the agent begins anew.
            patience = patience.renewed();
            if let Some(answer) = answer {
                service.answer(id, &answer).await?;
                continue;
            }
        }
        return Ok(service.report(id, seen, patience.answer_by).await);
    }
}
