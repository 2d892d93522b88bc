//! The toolset `executions`: list, explain, retry, resume, stop and delete executions, and read their files. `get_execution` is in
//! the default toolset.

mod change;
mod explain;
mod file;
mod get;
mod list;

use mcp_core::tool::{ToolError, Toolset};
use n8n_workflow::{Execution, Id};

use crate::service::N8n;

pub(crate) use explain::explain;
pub(crate) use get::GetExecution;

pub(crate) fn executions() -> Toolset<N8n> {
    Toolset::new()
        .with::<list::ListExecutions>()
        .with::<explain::ExplainExecution>()
        .with::<file::GetExecutionFile>()
        .with::<change::RetryExecution>()
        .with::<change::ResumeExecution>()
        .with::<change::StopExecution>()
        .with::<change::DeleteExecution>()
}

/// An execution that exists and that the policy allows.
pub(crate) async fn find(n8n: &N8n, id: &Id, with_data: bool) -> Result<Execution, ToolError> {
    let found = n8n.api.execution(id, with_data).await?;
    let execution = found.ok_or_else(|| {
        ToolError::not_found(format!(
            "n8n has no execution {id}. It may have been deleted, or the workflow does not save its \
             executions."
        ))
    })?;
    n8n.api.admit_execution(&execution).await?;
    Ok(execution)
}
