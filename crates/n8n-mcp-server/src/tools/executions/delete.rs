//! `delete_execution`

use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::find;
use crate::id::Id;
use crate::service::N8n;
use crate::tools::answer::Deleted;

/// Deletes an execution and its data for good.
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
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                format!("Execution {} has not ended. Stop it first.", execution.id),
            ));
        }
        let id = execution.id.to_string();
        let loss = format!("Deletes execution {id} of n8n with all of its data.");
        call.confirm(&loss, &id, self.confirm.as_deref()).await?;
        n8n.api.delete_execution(&execution.id).await?;
        Ok(Deleted { deleted: id })
    }
}
