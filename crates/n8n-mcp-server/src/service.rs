//! The n8n that this server works on, with its clients.

use std::sync::Arc;

use mcp_core::server::ChangeNotifier;
use mcp_core::tool::ToolError;
use upstream::redact::Redactor;

use crate::api::Api;
use crate::builtin_mcp::BuiltinMcp;
use crate::production_url::ProductionUrls;
use crate::start_method::Access;

/// One n8n: its API, its production URLs and its built-in MCP server.
pub(crate) struct N8n {
    pub(crate) api: Arc<Api>,
    pub(crate) urls: ProductionUrls,
    pub(crate) mcp: Arc<BuiltinMcp>,
    /// Results are not redacted.
    pub(crate) shows_secrets: bool,
    /// Workflows with this tag are tools.
    pub(crate) tool_tag: Option<String>,
    pub(crate) changes: ChangeNotifier,
}

impl N8n {
    /// Hides secrets, also those that webhooks are sent: the request of a run is a part of its outcome.
    pub(crate) fn redactor(&self) -> Redactor {
        let known = self.urls.secrets();
        // By a name that says what they are.
        let known = known.iter().map(|secret| ("password", secret.as_str()));
        Redactor::new(!self.shows_secrets).with_secrets(known)
    }

    /// The current credentials for starting triggers.
    ///
    /// # Errors
    /// When the configured credentials cannot be read.
    pub(crate) fn access(&self) -> Result<Access, ToolError> {
        Ok(Access {
            builtin_mcp: self.mcp.is_configured(),
            sends_user: self.urls.has_user(),
            credentials: self.urls.credentials()?,
        })
    }
}
