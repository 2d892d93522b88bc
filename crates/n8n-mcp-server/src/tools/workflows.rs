//! Workflows: list and look at them (default), write them (`authoring`), start and end their lives
//! (`lifecycle`).

mod activate;
mod archive;
mod create;
mod delete;
mod duplicate;
mod edit;
mod get;
mod known;
mod list;
mod tags;
mod update;
mod validate;
mod written;

use mcp_core::tool::{ToolError, Toolset};

use crate::api::Workflow;
use crate::id::Id;
use crate::service::N8n;
use crate::workflow::Draft;

pub(crate) use get::GetWorkflow;
pub(crate) use list::ListWorkflows;

/// The tools that write workflows.
pub(crate) fn authoring() -> Toolset<N8n> {
    Toolset::new()
        .with::<validate::ValidateWorkflow>()
        .with::<edit::EditWorkflow>()
        .with::<create::CreateWorkflow>()
        .with::<update::UpdateWorkflow>()
        .with::<duplicate::DuplicateWorkflow>()
}

/// The tools that say whether a workflow runs, and where it is kept.
pub(crate) fn lifecycle() -> Toolset<N8n> {
    Toolset::new()
        .with::<activate::ActivateWorkflow>()
        .with::<activate::DeactivateWorkflow>()
        .with::<tags::SetWorkflowTags>()
        .with::<archive::ArchiveWorkflow>()
        .with::<archive::UnarchiveWorkflow>()
        .with::<delete::DeleteWorkflow>()
}

/// A workflow and its definition, to work on.
async fn load(n8n: &N8n, id: &Id) -> Result<(Workflow, Draft), ToolError> {
    let (workflow, whole) = n8n.api.workflow_as(id).await?;
    Ok((workflow, Draft::read(whole)?))
}
