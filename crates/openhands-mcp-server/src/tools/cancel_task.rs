//! `cancel_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::api::{ApiFailure, Backend, Execution, SandboxProblem, StartEnd, TaskId};
use crate::tags::StopReason;
use crate::task::{TaskSnapshot, TaskStatus};
use crate::workspace::{LeftOver, left_over};

/// Stops a task at once, with the command that it runs. What it has done stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelTask {
    /// From run_task.
    task_id: TaskId,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct StopResult {
    task_id: TaskId,
    status: TaskStatus,
    /// Whether this call stopped it, and whether its commands have ended.
    message: String,
}

impl Tool for CancelTask {
    const NAME: &'static str = "cancel_task";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = OpenHands;
    type Output = StopResult;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<StopResult, ToolError> {
        let task_id = self.task_id;
        let server = &match service.task_server(task_id, call).await {
            Err(failure) if failure.sandbox_problem() == Some(SandboxProblem::Starting) => {
                let Backend::App(app) = service.servers.backend().await? else {
                    return Err(failure.into());
                };
                let end = StartEnd::Cancelled;
                if service.servers.end_start(&app, task_id, end).await? {
                    return Ok(StopResult {
                        task_id,
                        status: TaskStatus::Cancelled,
                        message: "It was stopped before it had started; its sandbox is deleted."
                            .to_owned(),
                    });
                }
                service.task_server(task_id, call).await?
            }
            found => found?,
        };
        let task = server.conversation(task_id).await?;
        let stop = || service.runner.stop(server, task_id, StopReason::Cancelled);
        match task.execution_status {
            Execution::Running | Execution::Idle | Execution::Unknown => {
                stop().await.map_err(unconfirmed)?;
            }
            // An interrupt would leave the agent waiting for its permission.
            Execution::WaitingForConfirmation => {
                server
                    .respond(task_id, false, "The task was cancelled.")
                    .await?;
                let reason = StopReason::Cancelled;
                service.runner.tag_stopped(server, task_id, reason).await?;
            }
            _ => {
                let status = TaskSnapshot::read(server, task_id).await?.status();
                // It may be about to go on.
                if status.is_settled() {
                    return Ok(StopResult {
                        task_id,
                        status,
                        message: "It was not running any more; nothing was changed.".to_owned(),
                    });
                }
                stop().await?;
            }
        }
        let status = match TaskSnapshot::read(server, task_id).await {
            Ok(after) => after.status(),
            // The stop was confirmed. An agent server that has just killed a command may be slow.
            Err(failure) if failure.is_transient() => TaskStatus::Cancelled,
            Err(failure) => return Err(failure.into()),
        };
        let message = match status {
            TaskStatus::Running => "It was told to stop and is still stopping.".to_owned(),
            TaskStatus::Finished => "It ended before it could be stopped.".to_owned(),
            _ => match left_over(server, &task).await {
                LeftOver::Nothing => {
                    "It was stopped, and none of its commands runs in its directory.".to_owned()
                }
                LeftOver::Processes(names) => format!(
                    "It was stopped, but commands still run in its directory, where others may work: {names}."
                ),
                LeftOver::Unknown => {
                    "It was stopped. It is not known whether its last command has ended.".to_owned()
                }
            },
        };
        Ok(StopResult {
            task_id,
            status,
            message,
        })
    }
}

/// Explains a stop without a response. If the interrupt comes at the start of a command, the agent
/// server does not respond for up to half a minute.
pub(super) fn unconfirmed(failure: ApiFailure) -> ToolError {
    let ambiguous = failure.is_ambiguous();
    let error = ToolError::from(failure);
    if !ambiguous {
        return error;
    }
    ToolError::new(
        error.kind(),
        "The agent server was told to stop the task but has not confirmed it. Call get_task_status \
         in half a minute; if it still runs, call cancel_task again.",
    )
    .caused_by(error)
}
