//! The n8n that this server works on, with its clients, and the options from which they follow.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::builder::FalseyValueParser;
use mcp_core::server::ChangeNotifier;
use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use serde::Serialize;
use serde_json::{Value, json};
use upstream::http::{Client, Url};
use upstream::redact::Redactor;
use upstream::text::truncate;

use crate::api::{Api, N8N};
use crate::builtin_mcp::BuiltinMcp;
use crate::policy::{Policy, Rule};
use crate::production_url::ProductionUrls;
use crate::start_method::Access;

/// Characters of the parts of a request in a question.
const MAX_SHOWN: usize = 1_000;

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

    /// The parts of a request, as a question names them.
    pub(crate) fn shown(&self, sent: &impl Serialize) -> String {
        let mut sent: Value = json!(sent);
        self.redactor().json(&mut sent);
        truncate(&sent.to_string(), MAX_SHOWN)
    }

    /// The current credentials for starting triggers.
    pub(crate) fn access(&self) -> Result<Access, ToolError> {
        Ok(Access {
            builtin_mcp: self.mcp.is_configured(),
            sends_user: self.urls.has_user(),
            credentials: self.urls.credentials()?,
        })
    }
}

/// Options of `n8n-mcp-server`.
#[derive(clap::Args)]
#[command(next_help_heading = "n8n")]
// clap names the group after the struct, and mcp-serve has a struct of that name. A bare `env` is
// the variable with the option's name: `N8N_URL`.
#[group(id = "n8n")]
pub(crate) struct Options {
    /// Address of n8n, with the path prefix if it has one.
    #[arg(long, env, value_name = "URL", default_value = "http://127.0.0.1:5678")]
    n8n_url: String,
    /// API key of n8n (Settings > n8n API).
    #[arg(long, env, value_name = "KEY", hide_env_values = true)]
    n8n_api_key: Option<String>,
    /// File with the API key; may be written later.
    #[arg(long, env, value_name = "FILE", hide_short_help = true)]
    n8n_api_key_file: Option<PathBuf>,
    /// Token of n8n's built-in MCP server (Settings > MCP access): can start more triggers.
    #[arg(
        long,
        env,
        value_name = "TOKEN",
        hide_env_values = true,
        hide_short_help = true
    )]
    n8n_mcp_token: Option<String>,
    /// File with that token; may be written later.
    #[arg(long, env, value_name = "FILE", hide_short_help = true)]
    n8n_mcp_token_file: Option<PathBuf>,
    /// Address of production webhooks, if it is not the address of n8n.
    #[arg(long, env, value_name = "URL", hide_short_help = true)]
    n8n_webhook_url: Option<String>,
    /// Credentials of webhooks, chats and forms that ask for one, by the names that they have in n8n:
    /// {"NAME": {"name": HEADER, "value": VALUE}} or {"NAME": {"user": USER, "password": PASSWORD}}.
    #[arg(
        long,
        env,
        value_name = "JSON",
        hide_env_values = true,
        hide_short_help = true
    )]
    n8n_webhook_credentials: Option<String>,
    /// File with these credentials as JSON; may be written later.
    #[arg(long, env, value_name = "FILE", hide_short_help = true)]
    n8n_webhook_credentials_file: Option<PathBuf>,
    /// Only these workflows: ids, tag:NAME or project:ID, separated by commas.
    #[arg(
        long,
        env = "N8N_ALLOW_WORKFLOWS",
        value_name = "RULE",
        value_delimiter = ','
    )]
    #[arg(hide_short_help = true)]
    allow_workflows: Vec<Rule>,
    /// Except these workflows, even if they are allowed; same form as --allow-workflows.
    #[arg(
        long,
        env = "N8N_DENY_WORKFLOWS",
        value_name = "RULE",
        value_delimiter = ','
    )]
    #[arg(hide_short_help = true)]
    deny_workflows: Vec<Rule>,
    /// Tag each workflow that is written through this server with `mcp-review`, and neither
    /// activate nor run it until a person has removed the tag.
    #[arg(long, env = "N8N_REQUIRE_REVIEW", value_parser = FalseyValueParser::new())]
    #[arg(hide_short_help = true)]
    require_review: bool,
    /// Offer each active workflow with this tag as a tool of its own; an empty one offers none.
    #[arg(long, env = "N8N_TOOL_TAG", value_name = "TAG", default_value = "mcp")]
    #[arg(hide_short_help = true)]
    tool_tag: String,
    /// Show what looks like a secret in the data of workflows and executions.
    #[arg(long, env = "N8N_SHOW_SECRETS", value_parser = FalseyValueParser::new())]
    #[arg(hide_short_help = true)]
    show_secrets: bool,
}

impl Options {
    pub(crate) fn connect(self) -> anyhow::Result<N8n> {
        let base = base_url(&self.n8n_url, "N8N_URL")?;
        let urls = match self.n8n_webhook_url.as_deref().map(str::trim) {
            None | Some("") => base.clone(),
            Some(url) => base_url(url, "N8N_WEBHOOK_URL")?,
        };
        let key = Secret::new(self.n8n_api_key, self.n8n_api_key_file);
        let token = Secret::new(self.n8n_mcp_token, self.n8n_mcp_token_file);
        let credentials = Secret::new(
            self.n8n_webhook_credentials,
            self.n8n_webhook_credentials_file,
        );
        let policy = Policy::new(
            self.allow_workflows,
            self.deny_workflows,
            self.require_review,
        );
        Ok(N8n {
            mcp: Arc::new(BuiltinMcp::new(&base, token)),
            urls: ProductionUrls::new(Client::new(urls, &N8N)?, credentials),
            api: Arc::new(Api::new(Client::new(base, &N8N)?, key, policy)),
            shows_secrets: self.show_secrets,
            tool_tag: Some(self.tool_tag.trim().to_owned()).filter(|tag| !tag.is_empty()),
            changes: ChangeNotifier::new(),
        })
    }
}

fn base_url(text: &str, option: &str) -> anyhow::Result<Url> {
    let mut url = Url::parse(text.trim())
        .with_context(|| format!("{option} is not a URL like http://127.0.0.1:5678"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        bail!("{option} must start with http:// or https://");
    }
    url.set_query(None);
    url.set_fragment(None);
    // People copy the address of the API.
    let path = url.path().trim_end_matches('/');
    if let Some(prefix) = path.strip_suffix("/api/v1").map(str::to_owned) {
        url.set_path(&prefix);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_taken() {
        let url = base_url(" https://n8n.example/prefix/?x#y ", "N8N_URL").unwrap();
        assert_eq!(url.as_str(), "https://n8n.example/prefix/");
        for (text, expected) in [
            ("http://h:5678/api/v1", "http://h:5678/"),
            ("http://h/n8n/api/v1/", "http://h/n8n"),
        ] {
            assert_eq!(base_url(text, "N8N_URL").unwrap().as_str(), expected);
        }
        for bad in ["", "localhost:5678", "ftp://host", "n8n", "http://"] {
            let error = base_url(bad, "N8N_URL").unwrap_err().to_string();
            assert!(error.starts_with("N8N_URL "), "{bad:?}: {error}");
        }
    }
}
