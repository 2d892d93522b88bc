//! `archive_workflow` and `unarchive_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::activate::State;
use crate::id::Id;
use crate::service::N8n;

/// Archives a workflow: it is deactivated and left out of lists, and can be brought back (n8n 2).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveWorkflow {
    /// From list_workflows.
    workflow_id: Id,
}

/// Brings an archived workflow back, inactive.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnarchiveWorkflow {
    /// From list_workflows with archived=true.
    workflow_id: Id,
}

impl Tool for ArchiveWorkflow {
    const NAME: &'static str = "archive_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = State;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<State, ToolError> {
        n8n.api.admit_id(&self.workflow_id).await?;
        let archived = n8n.api.set_archived(&self.workflow_id, true).await?;
        Ok(archived.into())
    }
}

impl Tool for UnarchiveWorkflow {
    const NAME: &'static str = "unarchive_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = State;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<State, ToolError> {
        n8n.api.admit_id(&self.workflow_id).await?;
        let back = n8n.api.set_archived(&self.workflow_id, false).await?;
        Ok(back.into())
    }
}
