//! Workflows as tools: each active workflow with a certain tag is a tool of its own.
//!
//! n8n is asked for those workflows again and again, less often while nothing changes. What is a
//! tool follows from the workflow alone (`tool`, `name`); running one is
//! running the workflow (`run`).

mod name;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::{Server, ServerItems};
use mcp_core::tool::{Tool as _, ToolError};
use upstream::poll::Backoff;

use crate::api::Workflow;
use crate::service::N8n;
use crate::tools::RunWorkflow;

use name::names;
use tool::{ToolSpec, WorkflowTool, offered};

/// Between two looks at the workflows that are tools.
const POLL_BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(2), Duration::from_secs(30)).with_factor(1.5);
/// More tools than this no client can use.
const MAX_TOOLS: usize = 250;

/// Keeps the tools of `server` up with the workflows of n8n, for as long as it is polled.
pub(crate) async fn keep_up(n8n: &Arc<N8n>, server: &Server) {
    let Some(tag) = &n8n.tool_tag else { return };
    if !server.has_tool(RunWorkflow::NAME) {
        // Read-only, or without the toolset that runs things: then neither do these.
        return;
    }
    let mut before = Vec::new();
    let mut delays = POLL_BACKOFF.delays();
    loop {
        match read(n8n, tag).await {
            Ok(tools) if tools != before => {
                let named = names(&tools);
                tracing::info!("{} workflows are tools", named.len());
                server.publish(ServerItems {
                    tools: named
                        .into_iter()
                        .zip(&tools)
                        .filter_map(|(name, tool)| WorkflowTool::declare(n8n, name, tool))
                        .collect(),
                    ..ServerItems::default()
                });
                before = tools;
                delays.reset();
            }
            Ok(_) => {}
            // The tools stay: calling one says what is wrong.
            Err(error) => {
                tracing::debug!(%error, "the workflows that are tools cannot be read");
            }
        }
        delays.sleep().await;
    }
}

/// The workflows that are tools at the moment.
async fn read(n8n: &N8n, tag: &str) -> Result<Vec<ToolSpec>, ToolError> {
    let workflows = n8n.api.tagged(tag, MAX_TOOLS).await?;
    let access = n8n.access()?;
    let policy = &n8n.api.policy;
    let is_open =
        |workflow: &&Workflow| policy.admits(workflow) && policy.check_start(workflow).is_ok();
    let mut tools: Vec<ToolSpec> = workflows
        .iter()
        .filter(is_open)
        .filter_map(|workflow| offered(workflow, &access))
        .collect();
    tools.sort_by(|a, b| a.workflow.as_str().cmp(b.workflow.as_str()));
    Ok(tools)
}
