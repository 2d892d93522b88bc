//! The triggers of a workflow, and how this server can start each of them.

mod field;
mod schema;
#[cfg(test)]
mod tests;
mod url;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::api::{Node, Workflow};
use crate::webhook_credentials::WebhookCredentials;

pub(crate) use field::{FormField, FormFieldKind, fields_of};
pub(crate) use schema::{parameters_in_note, parameters_of, without_code};

/// The kind of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TriggerKind {
    Webhook,
    Chat,
    Form,
    Schedule,
    Manual,
    SubWorkflow,
    // An event of another service.
    Event,
}

/// A trigger node that is not disabled.
pub(crate) struct Trigger<'a> {
    pub(crate) node: &'a Node,
    pub(crate) kind: TriggerKind,
    workflow: &'a Workflow,
}

/// The credentials that this server has for starting triggers.
#[derive(Default)]
pub(crate) struct Access {
    /// A token for n8n's built-in MCP server is configured.
    pub(crate) builtin_mcp: bool,
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

impl TriggerKind {
    fn from_node(node: &Node) -> Option<Self> {
        let name = node.kind.rsplit('.').next().unwrap_or_default();
        Some(match name {
            "webhook" => Self::Webhook,
            "chatTrigger" => Self::Chat,
            "formTrigger" => Self::Form,
            "scheduleTrigger" | "cron" | "interval" => Self::Schedule,
            "manualTrigger" | "start" => Self::Manual,
            "executeWorkflowTrigger" => Self::SubWorkflow,
            "emailReadImap" => Self::Event,
            _ if name.ends_with("Trigger") => Self::Event,
            _ => return None,
        })
    }
}

impl StartMethod {
    pub(crate) fn is_mcp(self) -> bool {
        !matches!(self, Self::Webhook | Self::Chat | Self::Form)
    }
}

/// The triggers of a workflow, in the order of its nodes.
pub(crate) fn triggers(workflow: &Workflow) -> Vec<Trigger<'_>> {
    let live = workflow.live_nodes().iter().filter(|node| !node.disabled);
    live.filter_map(|node| {
        Some(Trigger {
            node,
            kind: TriggerKind::from_node(node)?,
            workflow,
        })
    })
    .collect()
}

impl Trigger<'_> {
    /// The method by which this server can start it, or why it cannot and what would help.
    pub(crate) fn way(&self, access: &Access) -> Result<StartMethod, String> {
        let by_url = match self.kind {
            TriggerKind::Webhook | TriggerKind::Chat | TriggerKind::Form => self.by_url(access),
            TriggerKind::Event => {
                return Err("only its own event starts it; add a Webhook trigger".into());
            }
            _ => Err(String::new()),
        };
        by_url.or_else(|reason| {
            self.by_mcp(access).map_err(|advice| match &*reason {
                "" => format!("only n8n's MCP server can start it: {advice}"),
                _ => format!("{reason}, or use n8n's MCP server: {advice}"),
            })
        })
    }

    /// The rank among the triggers of its workflow; lower is better. URLs before n8n's MCP server,
    /// triggers that take parameters before those that do not.
    pub(crate) fn rank(&self, way: StartMethod) -> (bool, TriggerKind) {
        (way.is_mcp(), self.kind)
    }

    /// The name of the configured credential for its URL, if it requires one.
    pub(crate) fn credential<'a>(&self, access: &'a Access) -> Option<&'a str> {
        self.authentication()
            .and_then(|_| access.credentials.name_for(self.node))
    }

    fn by_url(&self, access: &Access) -> Result<StartMethod, String> {
        if !self.workflow.active {
            return Err("the workflow is not active: activate it in n8n".into());
        }
        if let (Some(scheme), None) = (self.authentication(), self.credential(access)) {
            let mut names = self.node.credentials.values();
            let name = names.find_map(|credential| credential.name.as_deref());
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
        match self.kind {
            TriggerKind::Chat => self.chat_id().map(|_| StartMethod::Chat),
            TriggerKind::Form => self.form_path().map(|_| StartMethod::Form),
            _ => self.webhook().map(|_| StartMethod::Webhook),
        }
    }

    fn by_mcp(&self, access: &Access) -> Result<StartMethod, String> {
        if self.kind == TriggerKind::Webhook
            && self
                .webhook()
                .is_ok_and(|webhook| url::has_parameters(&webhook.path))
        {
            return Err("which cannot pass the parameters in its path".into());
        }
        if !access.builtin_mcp {
            return Err("enable it (n8n: Settings > MCP access) and set N8N_MCP_TOKEN".into());
        }
        if !self.workflow.available_in_mcp() {
            return Err("switch on 'Available in MCP' in the workflow's settings".into());
        }
        Ok(match self.kind {
            TriggerKind::SubWorkflow => StartMethod::McpTest,
            TriggerKind::Manual => StartMethod::McpManual,
            _ if self.workflow.active => StartMethod::McpProduction,
            _ => StartMethod::McpManual,
        })
    }

    /// The scheme of the authentication that its URL requires.
    fn authentication(&self) -> Option<&str> {
        self.text("authentication")
            .filter(|scheme| *scheme != "none")
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.node.parameters.get(parameter).and_then(Value::as_str)
    }
}
