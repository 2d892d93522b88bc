//! The service behind the tools.

use anyhow::anyhow;
use mcp_core::tool::ToolError;
use mcp_serve::{Secret, Service};

use crate::Options;
use crate::api::AgentServer;
use crate::workspace::WorkspaceRoot;

/// An OpenHands agent server and how tasks are started on it. Holds nothing about tasks.
pub struct OpenHands {
    pub(crate) server: AgentServer,
    /// Name of the agent profile; none for the active one.
    pub(crate) profile: Option<String>,
    pub(crate) root: WorkspaceRoot,
}

impl OpenHands {
    /// Does not connect.
    ///
    /// # Errors
    /// When an option cannot be used; says which and why.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        let key = Secret::new(options.openhands_api_key, options.openhands_api_key_file);
        let root = WorkspaceRoot::new(&options.openhands_workspace_root)
            .map_err(|reason| anyhow!("OPENHANDS_WORKSPACE_ROOT {reason}"))?;
        // Compose files pass unset variables on as empty ones.
        let profile = options.openhands_agent_profile;
        Ok(Self {
            server: AgentServer::new(options.openhands_url, key)?,
            profile: profile.filter(|name| !name.trim().is_empty()),
            root,
        })
    }
}

impl Service for OpenHands {
    async fn probe(&self) -> Result<(), ToolError> {
        Ok(self.server.check().await?)
    }
}
