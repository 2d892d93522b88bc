//! The method by which this server can start a trigger, if it can, and the credentials for that. n8n's API returns
//! no secrets, so the operator configures the credentials of triggers here again, under their names in n8n.

use std::collections::HashMap;

use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use n8n_workflow::Node;
use n8n_workflow::trigger::{Trigger, TriggerKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::http::RequestBuilder;

/// The credentials that this server has for starting triggers.
#[derive(Default)]
pub(crate) struct Access {
    /// A token for n8n's built-in MCP server is configured.
    pub(crate) builtin_mcp: bool,
    /// The address of production URLs holds a user, who is sent as `authorization`.
    pub(crate) sends_user: bool,
    /// For production URLs that require authentication.
    pub(crate) credentials: WebhookCredentials,
}

/// The method of starting a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartMethod {
    // Through a production URL.
    Webhook,
    Chat,
    Form,
    // Through n8n's built-in MCP server: the published workflow …
    McpProduction,
    // … the workflow as it is in the editor …
    McpManual,
    // … the same, with the parameters as the output of the trigger.
    McpTest,
}

impl StartMethod {
    pub(crate) fn is_mcp(self) -> bool {
        !matches!(self, Self::Webhook | Self::Chat | Self::Form)
    }

    /// The rank among the triggers of a workflow; lower is better. URLs before n8n's MCP server,
    /// triggers that take parameters before those that do not.
    pub(crate) fn rank(self, kind: TriggerKind) -> (bool, TriggerKind) {
        (self.is_mcp(), kind)
    }
}

impl Access {
    /// The method by which this server can start `trigger`, or why it cannot and what would help.
    pub(crate) fn way(&self, trigger: &Trigger<'_>) -> Result<StartMethod, String> {
        let by_url = match trigger.kind {
            TriggerKind::Webhook | TriggerKind::Chat | TriggerKind::Form => self.by_url(trigger),
            TriggerKind::Event => {
                return Err("only its own event starts it; add a Webhook trigger".into());
            }
            _ => Err(String::new()),
        };
        by_url.or_else(|reason| {
            self.by_mcp(trigger).map_err(|advice| match &*reason {
                "" => format!("only n8n's MCP server can start it: {advice}"),
                _ => format!("{reason}, or use n8n's MCP server: {advice}"),
            })
        })
    }

    /// The name of the configured credential for the URL of `trigger`, if it requires one.
    pub(crate) fn credential(&self, trigger: &Trigger<'_>) -> Option<&str> {
        trigger.authentication()?;
        self.credentials.name_for(trigger.node)
    }

    fn by_url(&self, trigger: &Trigger<'_>) -> Result<StartMethod, String> {
        if !trigger.workflow.active {
            return Err(
                "the workflow is not active: activate it (activate_workflow, toolset lifecycle)"
                    .into(),
            );
        }
        if let (Some(scheme), None) = (trigger.authentication(), self.credential(trigger)) {
            let name = trigger.node.credentials().find_map(|one| one.name);
            return Err(match name {
                Some(name) => format!(
                    "its URL asks for authentication ({scheme}) with the credential {name:?}: set \
                     it in N8N_WEBHOOK_CREDENTIALS"
                ),
                None => format!(
                    "its URL asks for authentication ({scheme}), which this server does not have: \
                     set it to None"
                ),
            });
        }
        match trigger.kind {
            TriggerKind::Chat => trigger.chat_id().map(|_| StartMethod::Chat),
            TriggerKind::Form => trigger.form_path().map(|_| StartMethod::Form),
            _ => trigger.webhook().map(|_| StartMethod::Webhook),
        }
    }

    fn by_mcp(&self, trigger: &Trigger<'_>) -> Result<StartMethod, String> {
        let webhook = (trigger.kind == TriggerKind::Webhook).then(|| trigger.webhook());
        if webhook.is_some_and(|webhook| webhook.is_ok_and(|one| one.has_parameters())) {
            return Err("which cannot pass the parameters in its path".into());
        }
        if !self.builtin_mcp {
            return Err("enable it (n8n: Settings > MCP access) and set N8N_MCP_TOKEN".into());
        }
        if !trigger.workflow.available_in_mcp() {
            return Err("switch on 'Available in MCP' in the workflow's settings".into());
        }
        Ok(match trigger.kind {
            TriggerKind::SubWorkflow => StartMethod::McpTest,
            TriggerKind::Manual => StartMethod::McpManual,
            _ if trigger.workflow.active => StartMethod::McpProduction,
            _ => StartMethod::McpManual,
        })
    }
}

/// The configured credentials, by their names or ids in n8n.
#[derive(Default)]
pub(crate) struct WebhookCredentials(HashMap<String, WebhookCredential>);

/// One credential, with the fields that it has in n8n.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum WebhookCredential {
    /// Header Auth.
    Header { name: String, value: String },
    /// Basic Auth.
    Basic { user: String, password: String },
}

impl WebhookCredentials {
    /// Reads the current configuration.
    pub(crate) fn read(configured: &Secret) -> Result<Self, ToolError> {
        let wrong = || {
            ToolError::unauthorized(
                "N8N_WEBHOOK_CREDENTIALS (or the file that N8N_WEBHOOK_CREDENTIALS_FILE names) \
                 cannot be read: it is a JSON object whose keys are names of credentials in n8n \
                 and whose values are {\"name\":…,\"value\":…} for Header Auth or \
                 {\"user\":…,\"password\":…} for Basic Auth.",
            )
        };
        let text = configured.get().map_err(|error| wrong().caused_by(error))?;
        // The parser's message could hold a secret.
        text.map_or(Ok(Self::default()), |text| {
            serde_json::from_str(&text).map(Self).map_err(|_| wrong())
        })
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &String> {
        self.0.values().map(|credential| match credential {
            WebhookCredential::Header { value, .. } => value,
            WebhookCredential::Basic { password, .. } => password,
        })
    }

    /// The name or id under which the credential of this node is configured.
    pub(crate) fn name_for(&self, node: &Node) -> Option<&str> {
        let names = node.credentials();
        let mut names = names.flat_map(|credential| [credential.id, credential.name]);
        names.find_map(|name| Some(self.0.get_key_value(&name?)?.0.as_str()))
    }

    /// The header in which the credential of this name is sent.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|credential| match credential {
            WebhookCredential::Header { name, .. } => name.as_str(),
            WebhookCredential::Basic { .. } => "authorization",
        })
    }

    /// Adds the credential of this name to the request, if there is one.
    pub(crate) fn sign(&self, request: RequestBuilder, name: Option<&str>) -> RequestBuilder {
        match name.and_then(|name| self.0.get(name)) {
            Some(WebhookCredential::Header { name, value }) => request.header(name, value),
            Some(WebhookCredential::Basic { user, password }) => {
                request.basic_auth(user, Some(password))
            }
            None => request,
        }
    }
}
