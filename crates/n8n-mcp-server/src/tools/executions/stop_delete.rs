//! `stop_execution` and `delete_execution`

use super::find;
use crate::run::RunStatus;
use crate::tools::prelude::*;

/// Stops an execution that runs or waits; what its nodes have done stays done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopExecution {
    /// From list_executions or run_workflow.
    execution_id: Id,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    execution_id: String,
    status: RunStatus,
}

impl Tool for StopExecution {
    const NAME: &'static str = "stop_execution";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Stopped;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Stopped, ToolError> {
        let before = find(n8n, &self.execution_id, false).await?;
        if before.status.has_ended() {
            return Err(ToolError::conflict(format!(
                "Execution {} has ended already; nothing was stopped.",
                before.id
            )));
        }
        n8n.api.stop(&before.id).await?;
        // It may have ended by itself in the meantime.
        let after = find(n8n, &before.id, false).await?;
        Ok(Stopped {
            execution_id: after.id.to_string(),
            status: after.status.into(),
        })
    }
}

/// Deletes an execution and all its data.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteExecution {
    /// From list_executions.
    execution_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteExecution {
    const NAME: &'static str = "delete_execution";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let execution = find(n8n, &self.execution_id, false).await?;
        if !execution.status.has_ended() {
            return Err(ToolError::conflict(format!(
                "Execution {} has not ended. Stop it first.",
                execution.id
            )));
        }
        let id = execution.id.to_string();
        let loss = format!("Deletes execution {id} of n8n with all of its data.");
        call.confirm(&loss, &id, self.confirm.as_deref()).await?;
        n8n.api.delete_execution(&execution.id).await?;
        Ok(Deleted { deleted: id })
    }
}
