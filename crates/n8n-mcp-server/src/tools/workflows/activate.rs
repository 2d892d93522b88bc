//! `activate_workflow` and `deactivate_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Workflow;
use crate::id::Id;
use crate::service::N8n;

/// Activates a workflow: from now on its triggers start it. In n8n 2 this publishes its last
/// version.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActivateWorkflow {
    /// From list_workflows.
    workflow_id: Id,
}

/// Deactivates a workflow: its triggers start it no more. Runs under way go on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeactivateWorkflow {
    /// From list_workflows.
    workflow_id: Id,
}

/// The state of a workflow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct State {
    id: String,
    name: String,
    active: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
}

impl From<Workflow> for State {
    fn from(workflow: Workflow) -> Self {
        Self {
            id: workflow.id,
            name: workflow.name,
            active: workflow.active,
            archived: workflow.is_archived,
        }
    }
}

impl Tool for ActivateWorkflow {
    const NAME: &'static str = "activate_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = State;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<State, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        n8n.api.policy.check_start(&workflow)?;
        let active = n8n.api.set_active(&self.workflow_id, true).await?;
        Ok(active.into())
    }
}

impl Tool for DeactivateWorkflow {
    const NAME: &'static str = "deactivate_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = State;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<State, ToolError> {
        n8n.api.admit_id(&self.workflow_id).await?;
        let inactive = n8n.api.set_active(&self.workflow_id, false).await?;
        Ok(inactive.into())
    }
}
