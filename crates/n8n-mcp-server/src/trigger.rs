//! The triggers of a workflow, and for each of them the way by which it can be started from here.

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

pub(crate) use field::{Field, FieldKind};
pub(crate) use schema::{parameters_in_note, parameters_of, without_code};

/// What starts a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Webhook,
    Chat,
    Form,
    Schedule,
    Manual,
    SubWorkflow,
    // Something that happens in another service.
    Event,
}

/// A trigger node that is not disabled.
pub(crate) struct Trigger<'a> {
    pub(crate) node: &'a Node,
    pub(crate) kind: Kind,
    workflow: &'a Workflow,
}

/// The means of this server to start triggers with.
pub(crate) struct Access {
    /// There is a token for n8n's built-in MCP server.
    pub(crate) builtin_mcp: bool,
    /// For production URLs that ask for authentication.
    pub(crate) credentials: WebhookCredentials,
}

/// How a run is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    // Through a production URL.
    Webhook,
    Chat,
    Form,
    // Through n8n's built-in MCP server: the published workflow …
    McpProduction,
    // … the workflow as it is in the editor …
    McpManual,
    // … the same, with the parameters as what the trigger puts out.
    McpTest,
}

impl Kind {
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

    /// As in [the output](Serialize).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Chat => "chat",
            Self::Form => "form",
            Self::Schedule => "schedule",
            Self::Manual => "manual",
            Self::SubWorkflow => "sub_workflow",
            Self::Event => "event",
        }
    }
}

impl Way {
    /// True if n8n's built-in MCP server starts the run.
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
            kind: Kind::from_node(node)?,
            workflow,
        })
    })
    .collect()
}

impl Trigger<'_> {
    /// The way that is open, or why none is and what would open one.
    pub(crate) fn way(&self, access: &Access) -> Result<Way, String> {
        let by_url = match self.kind {
            Kind::Webhook | Kind::Chat | Kind::Form => self.by_url(access),
            Kind::Event => {
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

    /// Where it stands among the triggers of its workflow; less is better. A URL goes before n8n's
    /// MCP server, and what takes parameters before what does not.
    pub(crate) fn rank(&self, way: Way) -> (bool, Kind) {
        (way.is_mcp(), self.kind)
    }

    /// The name of the credential that its URL is called with, where it asks for one that is there.
    pub(crate) fn credential<'a>(&self, access: &'a Access) -> Option<&'a str> {
        self.authentication()
            .and_then(|_| access.credentials.name_for(self.node))
    }

    fn by_url(&self, access: &Access) -> Result<Way, String> {
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
            Kind::Chat => self.chat_id().map(|_| Way::Chat),
            Kind::Form => self.form_path().map(|_| Way::Form),
            _ => self.webhook().map(|_| Way::Webhook),
        }
    }

    fn by_mcp(&self, access: &Access) -> Result<Way, String> {
        if self.kind == Kind::Webhook
            && self.webhook().is_ok_and(|webhook| webhook.has_parameters())
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
            Kind::SubWorkflow => Way::McpTest,
            Kind::Manual => Way::McpManual,
            _ if self.workflow.active => Way::McpProduction,
            _ => Way::McpManual,
        })
    }

    /// The scheme by which its URL asks for authentication.
    fn authentication(&self) -> Option<&str> {
        self.text("authentication")
            .filter(|scheme| *scheme != "none")
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.node.parameters.get(parameter).and_then(Value::as_str)
    }
}
