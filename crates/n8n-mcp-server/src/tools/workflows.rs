//! Tools for workflows: list and read (default), write (`authoring`), activate, archive and delete
//! (`lifecycle`), and their versions (`versions`).

mod authoring;
mod get;
mod lifecycle;
mod validate;
mod versions;

use mcp_core::tool::ToolError;
use n8n_workflow::draft::Draft;
use n8n_workflow::{Id, Workflow};

use crate::service::N8n;

pub(crate) use authoring::authoring;
pub(crate) use get::{GetWorkflow, ListWorkflows};
pub(crate) use lifecycle::lifecycle;
pub(crate) use versions::versions;

async fn load(n8n: &N8n, id: &Id) -> Result<(Workflow, Draft), ToolError> {
    let workflow = n8n.api.workflow(id).await?;
    let draft = Draft::of(&workflow);
    Ok((workflow, draft))
}
