//! `delete_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cancel_task::unconfirmed;
use super::list_tasks::task_words;
use crate::OpenHands;
use crate::api::{AgentServer, ApiFailure, AppServer, Backend, Execution, StartEnd, TaskId};
use crate::tags::{ConversationTags, StopReason};
use crate::workspace::{has_worktree, remove_worktree};

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
pub(crate) struct DeleteResult {
    task_id: TaskId,
    /// Always true.
    deleted: bool,
}

impl Tool for DeleteTask {
    const NAME: &'static str = "delete_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = DeleteResult;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<DeleteResult, ToolError> {
        match service.servers.backend().await? {
            Backend::App(app) => self.delete_with_sandbox(service, &app, call).await?,
            Backend::Agent(_) => self.delete(service, call).await?,
        }
        Ok(DeleteResult {
            task_id: self.task_id,
            deleted: true,
        })
    }
}

impl DeleteTask {
    async fn delete(&self, service: &OpenHands, call: &Call) -> Result<(), ToolError> {
        let server = &service.task_server(self.task_id, call).await?;
        let task = server.conversation(self.task_id).await?;
        let tags = ConversationTags::new(task.tags);
        let has_worktree = has_worktree(self.task_id, tags.branch());
        let loss = match has_worktree {
            true => "all its events, its result, and its worktree with its branch",
            false => "all its events and its result",
        };
        self.confirm(call, tags.title(), loss).await?;
        // A running command would delay the deletion by half a minute.
        if matches!(
            task.execution_status,
            Execution::Running | Execution::Idle | Execution::Unknown
        ) {
            self.stop(service, server).await?;
        }
        if has_worktree {
            remove_worktree(server, self.task_id, &task.workspace.working_dir).await?;
        }
        Ok(server.delete(self.task_id).await?)
    }

    /// Also deletes its sandbox with all files, unless another task uses the sandbox.
    async fn delete_with_sandbox(
        &self,
        service: &OpenHands,
        app: &AppServer,
        call: &Call,
    ) -> Result<(), ToolError> {
        let task_id = self.task_id;
        let loss = "its sandbox, files and result";
        let Some(task) = app.conversation(task_id).await? else {
            return self.delete_start(service, app, loss, call).await;
        };
        self.confirm(call, task.title.as_deref(), loss).await?;
        if task.execution_status == Some(Execution::Running) {
            let server = service.servers.for_task(task_id).await?;
            self.stop(service, &server).await?;
        }
        app.delete(task_id).await?;
        service.servers.evict(task_id);
        Ok(())
    }

    /// Deletes a task that is starting, or could not be started.
    async fn delete_start(
        &self,
        service: &OpenHands,
        app: &AppServer,
        loss: &str,
        call: &Call,
    ) -> Result<(), ToolError> {
        let id = self.task_id;
        let start = app.recent_start(id).await?;
        let is_deleted = service.servers.start_end(id) == Some(StartEnd::Deleted);
        let start = start.filter(|_| !is_deleted);
        let start = start.ok_or_else(|| ToolError::from(ApiFailure::absent(id)))?;
        let title = start.prompt().map(task_words);
        self.confirm(call, title.as_deref(), loss).await?;
        if !service
            .servers
            .end_start(app, id, StartEnd::Deleted)
            .await?
        {
            app.delete(id).await?;
        }
        service.servers.evict(id);
        Ok(())
    }

    async fn confirm(&self, call: &Call, title: Option<&str>, loss: &str) -> Result<(), ToolError> {
        let title = title.unwrap_or("no title");
        let loss = format!("Deletes the task {title:?} with {loss}.");
        let target = self.task_id.to_string();
        call.confirm(&loss, &target, self.confirm.as_deref()).await
    }

    async fn stop(&self, service: &OpenHands, server: &AgentServer) -> Result<(), ToolError> {
        let reason = StopReason::Cancelled;
        let stopped = service.runner.stop(server, self.task_id, reason).await;
        stopped.map_err(unconfirmed)
    }
}
