//! The service behind the tools.

use std::sync::Arc;

use anyhow::{anyhow, ensure};
use mcp_core::server::{Changes, Server};
use mcp_core::tool::ToolError;
use mcp_serve::{Secret, Service};

use crate::Options;
use crate::api::{AgentServer, Failure, Servers};
use crate::ears::Ears;
use crate::limits::Limits;
use crate::mcp_servers::{self, McpServer};
use crate::task_id::TaskId;
use crate::watch::Line;
use crate::workspace::Root;

/// An OpenHands agent server and how tasks are started on it. What tasks depend on is kept there.
pub struct OpenHands {
    pub(crate) servers: Servers,
    /// Name of the agent profile; none for the active one.
    pub(crate) profile: Option<String>,
    /// Where tasks may work; the first is where they get directories of their own.
    pub(crate) roots: Vec<Root>,
    pub(crate) limits: Limits,
    /// What the agents of tasks may call.
    pub(crate) mcp_servers: Vec<McpServer>,
    pub(crate) line: Line,
    pub(crate) ears: Ears,
    /// Tells clients that what they watch has changed.
    pub(crate) changes: Changes,
}

impl OpenHands {
    /// Does not connect.
    ///
    /// # Errors
    /// When an option cannot be used; says which and why.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        let key = Secret::new(options.openhands_api_key, options.openhands_api_key_file);
        let root =
            |name: &str, root: &str| Root::new(root).map_err(|reason| anyhow!("{name} {reason}"));
        let own = root(
            "OPENHANDS_WORKSPACE_ROOT",
            &options.openhands_workspace_root,
        )?;
        let mut roots = vec![own];
        // Compose files pass unset variables on as empty ones.
        let others = options.openhands_workspaces.iter().map(|name| name.trim());
        for other in others.filter(|name| !name.is_empty()) {
            roots.push(root("OPENHANDS_WORKSPACES", other)?);
        }
        let cost = options.max_cost;
        ensure!(
            cost.is_none_or(|cost| cost.is_finite() && cost > 0.0),
            "OPENHANDS_MAX_COST must be more than 0"
        );
        let mcp_servers = mcp_servers::read(
            &options.openhands_mcp_servers,
            &options.openhands_mcp_tokens,
            &options.openhands_mcp_token_files,
        )?;
        let profile = options.openhands_agent_profile;
        Ok(Self {
            servers: Servers::new(options.openhands_url, key)?,
            profile: profile.filter(|name| !name.trim().is_empty()),
            roots,
            limits: Limits {
                parallel: options.max_parallel,
                iterations: options.max_iterations,
                seconds: options.max_seconds,
                cost,
            },
            mcp_servers,
            line: Line::default(),
            ears: Ears::default(),
            changes: Changes::new(),
        })
    }
}

impl OpenHands {
    /// The agent server that runs this task.
    ///
    /// # Errors
    /// It is in a sandbox that does not run now.
    pub(crate) async fn at(&self, id: TaskId) -> Result<AgentServer, Failure> {
        self.servers.of(id).await
    }

    /// The agent server that runs all tasks.
    ///
    /// # Errors
    /// There is none: each task has one of its own, in a sandbox.
    pub(crate) async fn agent_server(&self) -> Result<&AgentServer, Failure> {
        self.servers.agent().await
    }
}

impl Service for OpenHands {
    async fn probe(&self) -> Result<(), ToolError> {
        Ok(self.servers.check().await?)
    }

    async fn run(self: Arc<Self>, _: Arc<Server>) {
        tokio::join!(self.watch(), self.tell());
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.changes.clone())
    }
}
