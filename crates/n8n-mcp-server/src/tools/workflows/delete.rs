//! `delete_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::service::N8n;

/// Deletes a workflow and its executions for good. archive_workflow can be undone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

/// What was deleted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Deleted {
    deleted: String,
    name: String,
}

impl Tool for DeleteWorkflow {
    const NAME: &'static str = "delete_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let (id, name) = (workflow.id, workflow.name);
        let state = if workflow.active { " active" } else { "" };
        let loss =
            format!("Deletes the{state} workflow {name:?} ({id}) with all of its executions.");
        call.confirm(&loss, &id, self.confirm.as_deref()).await?;
        if workflow.active {
            // n8n 2 deletes none that is active.
            n8n.api.set_active(&self.workflow_id, false).await?;
        }
        n8n.api.delete_workflow(&self.workflow_id).await?;
        Ok(Deleted { deleted: id, name })
    }
}
