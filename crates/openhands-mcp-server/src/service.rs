//! The state that all tools share.

use anyhow::{anyhow, ensure};
use mcp_core::server::ChangeNotifier;
use mcp_serve::Secret;

use crate::Options;
use crate::api::Servers;
use crate::budget::Budget;
use crate::events::EventListeners;
use crate::scheduler::Scheduler;
use crate::workspace::Root;
use crate::workspace::mcp_servers::{self, McpServer};

/// The shared state of all tools. The state of tasks is kept at the agent server.
pub struct OpenHands {
    pub(crate) servers: Servers,
    /// The name of the agent profile; `None` for the active one.
    pub(crate) profile: Option<String>,
    /// Directories below which tasks may work. New directories of tasks are created in the first one.
    pub(crate) roots: Vec<Root>,
    pub(crate) max_budget: Budget,
    /// The MCP servers that the agents of tasks may call.
    pub(crate) mcp_servers: Vec<McpServer>,
    pub(crate) scheduler: Scheduler,
    pub(crate) listeners: EventListeners,
    /// Notifies clients of changes of the resources to which they subscribe.
    pub(crate) changes: ChangeNotifier,
}

impl OpenHands {
    /// Does not connect.
    ///
    /// # Errors
    /// An option is invalid; the error names it and the reason.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        let key = Secret::new(options.openhands_api_key, options.openhands_api_key_file);
        let root =
            |name: &str, root: &str| Root::new(root).map_err(|reason| anyhow!("{name} {reason}"));
        let own = root(
            "OPENHANDS_WORKSPACE_ROOT",
            &options.openhands_workspace_root,
        )?;
        let mut roots = vec![own];
        // Compose files forward unset variables as empty ones.
        let others = options.openhands_workspaces.iter().map(|name| name.trim());
        for other in others.filter(|name| !name.is_empty()) {
            roots.push(root("OPENHANDS_WORKSPACES", other)?);
        }
        let cost = options.max_cost;
        ensure!(
            cost.is_none_or(|cost| cost.is_finite() && cost > 0.0),
            "OPENHANDS_MAX_COST must be more than 0"
        );
        let mcp_servers = mcp_servers::parse_options(
            &options.openhands_mcp_servers,
            &options.openhands_mcp_tokens,
            &options.openhands_mcp_token_files,
        )?;
        let profile = options.openhands_agent_profile;
        let servers = Servers::new(options.openhands_url, key)?;
        Ok(Self {
            profile: profile.filter(|name| !name.trim().is_empty()),
            roots,
            max_budget: Budget {
                iterations: options.max_iterations,
                seconds: options.max_seconds,
                cost,
            },
            mcp_servers,
            scheduler: Scheduler::new(servers.clone(), options.max_parallel),
            listeners: EventListeners::new(servers.clone()),
            servers,
            changes: ChangeNotifier::new(),
        })
    }
}
