//! The toolset `lifecycle`: whether a workflow runs, and where it is kept.

use mcp_core::tool::{Call, Effect, Tool, ToolError, Toolset};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Workflow;
use crate::id::Id;
use crate::service::N8n;

/// The tools.
pub(crate) fn lifecycle() -> Toolset<N8n> {
    Toolset::new()
        .with::<ActivateWorkflow>()
        .with::<DeactivateWorkflow>()
        .with::<SetWorkflowTags>()
        .with::<ArchiveWorkflow>()
        .with::<UnarchiveWorkflow>()
        .with::<DeleteWorkflow>()
}

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
        let inactive = n8n.api.set_active(&self.workflow_id, false).await;
        inactive.map(State::from)
    }
}

/// Gives a workflow these tags instead of those that it has; makes tags that there are not yet.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetWorkflowTags {
    /// From list_workflows.
    workflow_id: Id,
    /// Names, at most 24 characters each.
    tags: Vec<String>,
}

/// The tags of a workflow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tagged {
    id: String,
    tags: Vec<String>,
}

impl Tool for SetWorkflowTags {
    const NAME: &'static str = "set_workflow_tags";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Tagged;

    async fn call(mut self, n8n: &N8n, _: &Call) -> Result<Tagged, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let mut tags: Vec<String> = Vec::new();
        for tag in self.tags.drain(..) {
            let tag = tag.trim().to_owned();
            if tag.is_empty() || tag.chars().count() > 24 {
                return Err(ToolError::invalid_argument(
                    "`tags` holds a name that is blank or longer than 24 characters.",
                ));
            }
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        n8n.api.policy.check_tags(&workflow, &tags)?;
        n8n.api.set_tags(&self.workflow_id, &tags).await?;
        Ok(Tagged {
            id: workflow.id,
            tags,
        })
    }
}

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
        let archived = n8n.api.set_archived(&self.workflow_id, true).await;
        archived.map(State::from)
    }
}

impl Tool for UnarchiveWorkflow {
    const NAME: &'static str = "unarchive_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = State;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<State, ToolError> {
        n8n.api.admit_id(&self.workflow_id).await?;
        let back = n8n.api.set_archived(&self.workflow_id, false).await;
        back.map(State::from)
    }
}

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
pub(crate) struct DeletedWorkflow {
    deleted: String,
    name: String,
}

impl Tool for DeleteWorkflow {
    const NAME: &'static str = "delete_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = DeletedWorkflow;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<DeletedWorkflow, ToolError> {
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
        Ok(DeletedWorkflow { deleted: id, name })
    }
}
