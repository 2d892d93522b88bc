//! `delete_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cancel_task::unconfirmed;
use crate::OpenHands;
use crate::api::{AppServer, Execution};
use crate::notes::Stopped;
use crate::task_id::TaskId;

/// Deletes a task with its events and result, stopping it first. Its files stay on the agent server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteTask {
    /// From run_task.
    task_id: TaskId,
    /// The task_id again, if the user agrees.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Deletion {
    task_id: TaskId,
    /// Always true.
    deleted: bool,
}

impl Tool for DeleteTask {
    const NAME: &'static str = "delete_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Deletion;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Deletion, ToolError> {
        let task_id = self.task_id;
        if let Some(app) = service.servers.app().await? {
            return self.with_sandbox(service, &app, call).await;
        }
        let server = service.agent_server().await?;
        let task = server.conversation(task_id).await?;
        let name = task.notes.title().unwrap_or("no title");
        let loss = format!("Deletes the task {name:?} with all its events and its result.");
        let target = task_id.to_string();
        call.confirm(&loss, &target, self.confirm.as_deref())
            .await?;
        // A running command would hold the deletion up for half a minute.
        if matches!(
            task.execution_status,
            Execution::Running | Execution::Idle | Execution::Unknown
        ) {
            let stopped = service.stop(task_id, Stopped::Cancelled).await;
            stopped.map_err(unconfirmed)?;
        }
        server.forget(task_id).await?;
        Ok(Deletion {
            task_id,
            deleted: true,
        })
    }
}

impl DeleteTask {
    /// Its sandbox goes, too, unless another task is in it, and so do its files.
    async fn with_sandbox(
        self,
        service: &OpenHands,
        app: &AppServer,
        call: &Call,
    ) -> Result<Deletion, ToolError> {
        let task_id = self.task_id;
        let Some(task) = app.conversation(task_id).await? else {
            // Why there is none: it may be about to start.
            service.at(task_id).await?;
            return Err(ToolError::not_found(format!("There is no task {task_id}.")));
        };
        let name = task.title.as_deref().unwrap_or("no title");
        let loss = format!("Deletes the task {name:?} with its sandbox, files and result.");
        let target = task_id.to_string();
        call.confirm(&loss, &target, self.confirm.as_deref())
            .await?;
        if task.execution_status == Some(Execution::Running) {
            let stopped = service.stop(task_id, Stopped::Cancelled).await;
            stopped.map_err(unconfirmed)?;
        }
        app.forget(task_id).await?;
        service.servers.forget(task_id);
        Ok(Deletion {
            task_id,
            deleted: true,
        })
    }
}
