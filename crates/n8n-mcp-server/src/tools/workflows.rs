//! Tools for workflows: list and read (default), write (`authoring`), activate, archive and delete
//! (`lifecycle`), and their versions (`versions`).

mod authoring;
mod get;
mod lifecycle;
mod list;
mod node_catalog;
mod validate;
mod verdict;
mod versions;

use mcp_core::tool::ToolError;
use n8n_workflow::draft::{Draft, DraftError};
use n8n_workflow::{Id, Workflow};

use crate::service::N8n;

pub(crate) use authoring::authoring;
pub(crate) use get::GetWorkflow;
pub(crate) use lifecycle::lifecycle;
pub(crate) use list::ListWorkflows;
pub(crate) use versions::versions;

async fn load(n8n: &N8n, id: &Id) -> Result<(Workflow, Draft), ToolError> {
    let (workflow, whole) = n8n.api.workflow_as(id).await?;
    Ok((workflow, Draft::read_stored(whole).map_err(impossible)?))
}

fn impossible(error: DraftError) -> ToolError {
    ToolError::invalid_argument(error.to_string())
}
