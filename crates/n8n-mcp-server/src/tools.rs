//! The tools, by toolset. `run_workflow` is in [`crate::run`].

mod admin;
mod collection;
mod credentials;
mod data_tables;
pub(crate) mod executions;
mod nodes;
mod prelude;
mod tags;
pub(crate) mod workflows;

use mcp_core::tool::Toolset;

use crate::run::RunWorkflow;
use crate::service::N8n;

pub(crate) use executions::GetExecution;
pub(crate) use workflows::{GetWorkflow, ListWorkflows};

pub(crate) fn all() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListWorkflows>()
        .with::<GetWorkflow>()
        .with::<RunWorkflow>()
        .with::<GetExecution>()
        .group("authoring", workflows::authoring())
        .group("lifecycle", workflows::lifecycle())
        .group("versions", workflows::versions())
        .group("executions", executions::executions())
        .group("nodes", nodes::nodes())
        .group("credentials", credentials::credentials())
        .group("tags", tags::tags())
        .group("data_tables", data_tables::data_tables())
        .group("admin", admin::admin())
}
