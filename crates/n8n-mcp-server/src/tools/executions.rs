//! The toolset `executions`: what ran, why it failed, and what to do about it. `get_execution` is
//! in the default toolset.

mod end;
mod explain;
mod get;
mod list;
mod retry;

use mcp_core::tool::{ToolError, Toolset};

use crate::api::Execution;
use crate::id::Id;
use crate::service::N8n;

pub(crate) use explain::explain;
pub(crate) use get::GetExecution;

/// The tools.
pub(crate) fn executions() -> Toolset<N8n> {
    Toolset::new()
        .with::<list::ListExecutions>()
        .with::<explain::ExplainExecution>()
        .with::<retry::RetryExecution>()
        .with::<end::StopExecution>()
        .with::<end::DeleteExecution>()
}

/// An execution that is there and open.
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
