//! The toolset `lifecycle`: activating, tagging, archiving and deleting workflows.

use n8n_workflow::Workflow;

use crate::tools::prelude::*;

/// The limit of n8n for the name of a tag.
const MAX_TAG_CHARS: usize = 24;

pub(crate) fn lifecycle() -> Toolset<N8n> {
    Toolset::new()
        .with::<ActivateWorkflow>()
        .with::<DeactivateWorkflow>()
        .with::<SetWorkflowTags>()
        .with::<ArchiveWorkflow>()
        .with::<UnarchiveWorkflow>()
        .with::<DeleteWorkflow>()
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkflowState {
    id: String,
    name: String,
    active: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
}

impl From<Workflow> for WorkflowState {
    fn from(workflow: Workflow) -> Self {
        Self {
            id: workflow.id,
            name: workflow.name,
            active: workflow.active,
            archived: workflow.is_archived,
        }
    }
}

/// Activates a workflow: from now on its triggers start it. In n8n 2 this publishes its last
/// version.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActivateWorkflow {
    /// From list_workflows.
    workflow_id: Id,
}

impl Tool for ActivateWorkflow {
    const NAME: &'static str = "activate_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = WorkflowState;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowState, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        n8n.api.policy.check_start(&workflow)?;
        let active = n8n.api.act(&self.workflow_id, "activate").await?;
        Ok(active.into())
    }
}

/// Deactivates a workflow: triggers no longer start it. Current runs continue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeactivateWorkflow {
    /// From list_workflows.
    workflow_id: Id,
}

impl Tool for DeactivateWorkflow {
    const NAME: &'static str = "deactivate_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = WorkflowState;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowState, ToolError> {
        admit_and_act(n8n, &self.workflow_id, "deactivate").await
    }
}

/// Archives a workflow: it is deactivated and left out of lists, and can be brought back (n8n 2).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveWorkflow {
    /// From list_workflows.
    workflow_id: Id,
}

impl Tool for ArchiveWorkflow {
    const NAME: &'static str = "archive_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = WorkflowState;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowState, ToolError> {
        admit_and_act(n8n, &self.workflow_id, "archive").await
    }
}

/// Brings an archived workflow back, inactive.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnarchiveWorkflow {
    /// From list_workflows with archived=true.
    workflow_id: Id,
}

impl Tool for UnarchiveWorkflow {
    const NAME: &'static str = "unarchive_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = WorkflowState;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowState, ToolError> {
        admit_and_act(n8n, &self.workflow_id, "unarchive").await
    }
}

async fn admit_and_act(n8n: &N8n, id: &Id, action: &str) -> Result<WorkflowState, ToolError> {
    n8n.api.admit_id(id).await?;
    n8n.api.act(id, action).await.map(WorkflowState::from)
}

/// Replaces the tags of a workflow; creates tags that do not exist yet.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetWorkflowTags {
    /// From list_workflows.
    workflow_id: Id,
    /// Names, at most 24 characters each.
    tags: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkflowTags {
    id: String,
    tags: Vec<String>,
}

impl Tool for SetWorkflowTags {
    const NAME: &'static str = "set_workflow_tags";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = WorkflowTags;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowTags, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let mut tags: Vec<String> = Vec::new();
        for tag in &self.tags {
            let tag = tag.trim();
            if tag.is_empty() || tag.chars().count() > MAX_TAG_CHARS {
                return Err(ToolError::invalid_argument(format!(
                    "`tags` contains a name that is blank or longer than {MAX_TAG_CHARS} \
                     characters."
                )));
            }
            if !tags.iter().any(|other| other == tag) {
                tags.push(tag.to_owned());
            }
        }
        n8n.api.policy.check_tags(&workflow, &tags)?;
        n8n.api.set_tags(&self.workflow_id, &tags).await?;
        let id = workflow.id;
        Ok(WorkflowTags { id, tags })
    }
}

/// Deletes a workflow and its executions. Only archive_workflow can be undone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

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
            // n8n 2 deletes only inactive workflows.
            n8n.api.act(&self.workflow_id, "deactivate").await?;
        }
        n8n.api.delete_workflow(&self.workflow_id).await?;
        Ok(DeletedWorkflow { deleted: id, name })
    }
}
