//! Publishes each active workflow with a certain tag as a tool.
//!
//! Polls n8n for these workflows, less often while nothing changes. The tool follows from the
//! workflow alone (`tool`); calling it runs the workflow (`run`).

mod tool;

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::{Server, ServerItems};
use mcp_core::tool::{Tool as _, ToolError};
use n8n_workflow::Workflow;
use upstream::poll::Backoff;

use crate::service::N8n;
use crate::tools::RunWorkflow;

use tool::{ToolSpec, WorkflowTool, names, tool_spec};

const POLL_BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(2), Duration::from_secs(30)).with_factor(1.5);
/// More tools than any client can use.
const MAX_TOOLS: usize = 250;

/// Keeps the tools of `server` in sync with the workflows of n8n.
pub(crate) async fn sync(n8n: &Arc<N8n>, server: &Server) {
    // A server without run_workflow, such as a read-only one, must not run workflows this way.
    let is_allowed = server.has_tool(RunWorkflow::NAME);
    let Some(tag) = n8n.tool_tag.as_ref().filter(|_| is_allowed) else {
        return n8n.changes.lists_published();
    };
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
            // The tools stay; calling one returns the error.
            Err(error) => {
                tracing::debug!(%error, "the workflows that are tools cannot be read");
            }
        }
        n8n.changes.lists_published();
        delays.sleep().await;
    }
}

async fn read(n8n: &N8n, tag: &str) -> Result<Vec<ToolSpec>, ToolError> {
    let workflows = n8n.api.tagged(tag).await?;
    let access = n8n.access()?;
    let policy = &n8n.api.policy;
    let is_open =
        |workflow: &&Workflow| policy.admits(workflow) && policy.check_start(workflow).is_ok();
    let open = workflows.iter().filter(is_open);
    let mut tools: Vec<_> = open
        .filter_map(|workflow| tool_spec(workflow, &access))
        .collect();
    tools.sort_by(|a, b| a.workflow.as_str().cmp(b.workflow.as_str()));
    tools.truncate(MAX_TOOLS);
    Ok(tools)
}
