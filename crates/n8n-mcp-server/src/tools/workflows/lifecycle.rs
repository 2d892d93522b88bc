//! The toolset `lifecycle`: activating, tagging, archiving, moving and deleting workflows.

use mcp_core::tool::ToolErrorKind;
use n8n_workflow::trigger::Webhook;
use n8n_workflow::{Node, Workflow};

use super::load;
use crate::api::after;
use crate::tools::prelude::*;
use crate::tools::tags::is_name as is_tag_name;

const TRANSFERS: Collection = Collection {
    kind: "Workflow",
    path: "workflows",
    missing: "n8n has no such project, or the user of the API key may not create workflows in it.",
};
/// The note on a workflow that n8n has activated: it registers the triggers only after its answer.
const LIVE: &str = "It is active, and live in a moment: until then n8n may answer its URLs with 404, or run what was \
    live before.";

pub(crate) fn lifecycle() -> Toolset<N8n> {
    Toolset::new()
        .with::<ActivateWorkflow>()
        .with::<DeactivateWorkflow>()
        .with::<SetWorkflowTags>()
        .with::<ArchiveWorkflow>()
        .with::<UnarchiveWorkflow>()
        .with::<MoveWorkflow>()
        .with::<DeleteWorkflow>()
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkflowState {
    id: String,
    name: String,
    active: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<Workflow> for WorkflowState {
    fn from(workflow: Workflow) -> Self {
        Self {
            id: workflow.id.to_string(),
            name: workflow.name,
            active: workflow.active,
            archived: workflow.is_archived,
            note: None,
        }
    }
}

/// Activates a workflow: its triggers start it. Publishes its draft, also if it is active.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActivateWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
}

impl Tool for ActivateWorkflow {
    const NAME: &'static str = "activate_workflow";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = WorkflowState;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowState, ToolError> {
        let _lock = n8n.api.lock(&self.workflow_id).await;
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        n8n.api.policy.check_start(&workflow)?;
        let taken = taken_paths(n8n, &workflow.id, &workflow.nodes).await;
        let active = n8n.api.act(&self.workflow_id, "activate").await;
        let active = active.map_err(|error| match (&taken, error.kind()) {
            (Some(taken), ToolErrorKind::Conflict) => {
                ToolError::conflict(format!("{} {taken}", error.message())).caused_by(error)
            }
            _ => error,
        })?;
        if workflow.active {
            n8n.api.note_published(&self.workflow_id);
        }
        let live = active.active.then(|| LIVE.to_owned());
        let notes: Vec<_> = live.into_iter().chain(taken).collect();
        Ok(WorkflowState {
            note: Some(notes.join(" ")).filter(|note| !note.is_empty()),
            ..active.into()
        })
    }
}

/// Names the webhooks of a workflow whose method and path another active workflow has: n8n registers one of them
/// only. With parameters in the path it does so without a word.
pub(super) async fn taken_paths(n8n: &N8n, id: &Id, nodes: &[Node]) -> Option<String> {
    let own = webhook_urls(nodes);
    if own.is_empty() {
        return None;
    }
    let others = n8n.api.all_workflows(&[("active", "true")]).await.ok()?;
    let mut others = others.iter().filter(|other| other.id != *id);
    let (url, other) = others.find_map(|other| {
        let taken = webhook_urls(other.live_nodes());
        let url = own.iter().find(|url| taken.contains(url))?;
        Some((url, other))
    })?;
    let whose = match n8n.api.policy.admits(other) {
        true => format!("workflow {:?} ({})", other.name, other.id),
        false => "another workflow".to_owned(),
    };
    Some(format!(
        "{whose} is active with the same method and path ({url}), and n8n calls only one of the two: change \
         the path of one."
    ))
}

fn webhook_urls(nodes: &[Node]) -> Vec<String> {
    let is_live = |node: &&Node| !node.is_disabled() && node.short_kind() == "webhook";
    // One without a path has its id in place of that.
    let has_path = |webhook: &Webhook| webhook.path != [""];
    let webhooks = nodes.iter().filter(is_live);
    let webhooks = webhooks.filter_map(|node| Webhook::of(node).ok().filter(has_path));
    webhooks.flat_map(Webhook::urls).collect()
}

/// Deactivates a workflow: triggers no longer start it. Current runs continue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeactivateWorkflow {
    /// list_workflows shows the id.
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

/// Archives a workflow: it is deactivated and left out of lists, and can be brought back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveWorkflow {
    /// list_workflows shows the id.
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
    /// list_workflows with archived=true shows the id.
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
    let _lock = n8n.api.lock(id).await;
    n8n.api.admit_id(id).await?;
    n8n.api.act(id, action).await.map(WorkflowState::from)
}

/// Replaces the tags of a workflow; creates tags that do not exist yet.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetWorkflowTags {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// Each name has at most 24 characters.
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
        let lock = n8n.api.lock(&self.workflow_id).await;
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let mut tags: Vec<String> = Vec::new();
        for tag in &self.tags {
            let tag = tag.trim();
            if !is_tag_name(tag) {
                return Err(ToolError::invalid_argument(
                    "`tags` contains a name that is blank or longer than 24 characters.",
                ));
            }
            if !tags.iter().any(|other| other == tag) {
                tags.push(tag.to_owned());
            }
        }
        n8n.api.policy.check_tags(&workflow, &tags)?;
        n8n.api.set_tags(&self.workflow_id, &tags).await?;
        drop(lock);
        let id = workflow.id.to_string();
        Ok(WorkflowTags { id, tags })
    }
}

/// Moves a workflow to another project, to a folder of its project, or both.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// read_n8n_api shows the id, at `projects`.
    project_id: Option<Id>,
    /// read_n8n_api shows the id, at `projects/ID/folders`; `root` stands for none.
    folder_id: Option<Id>,
    /// Pass the value that the refused call names, once the user has agreed.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct MovedWorkflow {
    moved: String,
    name: String,
    note: Option<String>,
}

impl Tool for MoveWorkflow {
    const NAME: &'static str = "move_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = MovedWorkflow;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<MovedWorkflow, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let (id, name) = (workflow.id.to_string(), workflow.name.clone());
        if self.project_id.is_none() && self.folder_id.is_none() {
            return Err(ToolError::invalid_argument(
                "Pass `project_id`, `folder_id` or both.",
            ));
        }
        if let Some(project) = &self.project_id {
            n8n.api.policy.check_move(&workflow, project)?;
            let loss = format!(
                "Moves workflow {name:?} ({id}) to project {project}: the members of its own project lose \
                 it, and it may not use the credentials of that project any more."
            );
            let confirm = self.confirm.as_deref();
            call.confirm_facts(&loss, &id, project.as_str(), confirm)
                .await?;
        }
        let lock = n8n.api.lock(&self.workflow_id).await;
        let mut note = None;
        if let Some(project) = &self.project_id {
            // The answer may have taken long.
            let latest = n8n.api.workflow(&self.workflow_id).await?;
            n8n.api.policy.check_move(&latest, project)?;
            if latest.updated_at != workflow.updated_at || latest.projects != workflow.projects {
                return Err(ToolError::conflict(format!(
                    "Workflow {id} was changed since you asked to move it; nothing was moved. Read it again \
                     with get_workflow."
                )));
            }
            let body = json!({"destinationProjectId": project.as_str()});
            let path = [id.as_str(), "transfer"];
            let IgnoredAny = TRANSFERS.send(n8n, Method::PUT, &path, &body).await?;
            if latest.active {
                note = no_longer_active(n8n.api.workflow(&self.workflow_id).await);
            }
        }
        if let Some(folder) = &self.folder_id {
            // n8n changes a folder only together with the definition, as it is at this moment.
            let moved = async {
                let (_, draft) = load(n8n, &self.workflow_id).await?;
                n8n.api.move_to_folder(&lock, &draft, folder).await
            };
            moved.await.map_err(|error| match &self.project_id {
                Some(project) => {
                    let done = format!(
                        "Workflow {id} was moved to project {project}, but not to the folder (call again with \
                         `folder_id` only):"
                    );
                    after(&done, error)
                }
                None => error,
            })?;
        }
        Ok(MovedWorkflow {
            moved: id,
            name,
            note,
        })
    }
}

/// The note on an active workflow that was moved: n8n stops it, moves it and starts it again, and does not tell
/// whether it could.
fn no_longer_active(moved: Result<Workflow, ToolError>) -> Option<String> {
    match moved {
        Ok(moved) if moved.active => None,
        Ok(_) => Some(
            "It was active before, and n8n could not start it again in the other project: activate_workflow \
             says why."
                .to_owned(),
        ),
        Err(_) => Some(
            "It was active before. Whether it still is cannot be read with this API key: look in n8n.".to_owned(),
        ),
    }
}

/// Deletes a workflow and its executions. Only archive_workflow can be undone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// Repeat the id once the user has agreed.
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
        let (id, name) = (workflow.id.to_string(), workflow.name);
        let state = if workflow.active { " active" } else { "" };
        let loss =
            format!("Deletes the{state} workflow {name:?} ({id}) with all of its executions.");
        call.confirm(&loss, &id, self.confirm.as_deref()).await?;
        let _lock = n8n.api.lock(&self.workflow_id).await;
        // The answer may have taken long.
        let is_active = n8n.api.workflow(&self.workflow_id).await?.active;
        if is_active {
            // n8n deletes only inactive workflows.
            n8n.api.act(&self.workflow_id, "deactivate").await?;
        }
        let deleted = n8n.api.delete_workflow(&self.workflow_id).await;
        deleted.map_err(|error| match is_active {
            true => after("The workflow was deactivated.", error),
            false => error,
        })?;
        Ok(DeletedWorkflow { deleted: id, name })
    }
}
