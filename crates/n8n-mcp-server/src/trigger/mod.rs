//! The triggers of a workflow, and for each of them the way by which it can be started from here.

mod field;
#[cfg(test)]
mod tests;
mod url;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::api::{Node, Workflow};
use crate::logins::Known;

pub(crate) use field::{Field, FieldKind};
pub(crate) use url::{Chat, Form, Webhook};

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
}

/// What decides which ways are open, beside the node itself.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    /// The workflow is active.
    pub(crate) active: bool,
    /// n8n's built-in MCP server may act on the workflow.
    pub(crate) available_in_mcp: bool,
    pub(crate) means: Means<'a>,
}

/// What we have to start workflows with.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    /// There is a token for n8n's built-in MCP server.
    pub(crate) mcp: bool,
    /// For production URLs that ask for authentication.
    pub(crate) logins: &'a Known,
}

/// How a trigger is started.
#[derive(Debug, PartialEq)]
pub(crate) enum Way {
    /// Through its production URL.
    Webhook(Webhook),
    /// Through the production URL of its chat.
    Chat(Chat),
    /// Through the production URL of its form.
    Form(Form),
    /// Through n8n's built-in MCP server.
    Mcp(Mode),
}

/// What n8n's built-in MCP server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The published workflow.
    Production,
    /// The workflow as it is in the editor.
    Manual,
    /// The same, with the parameters as what the trigger puts out.
    Test,
}

impl Kind {
    pub(crate) fn of(node: &Node) -> Option<Self> {
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

    /// True for what has a production URL.
    fn has_url(self) -> bool {
        matches!(self, Self::Webhook | Self::Chat | Self::Form)
    }
}

/// The triggers of a workflow, in the order of its nodes.
pub(crate) fn triggers(workflow: &Workflow) -> Vec<Trigger<'_>> {
    let live = workflow.live_nodes().iter().filter(|node| !node.disabled);
    live.filter_map(|node| Kind::of(node).map(|kind| Trigger { node, kind }))
        .collect()
}

impl<'a> Site<'a> {
    pub(crate) fn of(workflow: &Workflow, means: Means<'a>) -> Self {
        Self {
            active: workflow.active,
            available_in_mcp: workflow.available_in_mcp(),
            means,
        }
    }
}

impl Trigger<'_> {
    /// The way that is open, or why none is and what would open one.
    pub(crate) fn way(&self, site: Site<'_>) -> Result<Way, String> {
        if self.kind == Kind::Event {
            return Err("only its own event starts it; add a Webhook trigger".into());
        }
        if !self.kind.has_url() {
            let advice = |advice| format!("only n8n's MCP server can start it: {advice}");
            return self.mcp(site).map(Way::Mcp).map_err(advice);
        }
        let by_url = self.login(site).and_then(|login| {
            Ok(match self.kind {
                Kind::Chat => Way::Chat(self.chat(login)?),
                Kind::Form => Way::Form(self.form(login)?),
                _ => Way::Webhook(Webhook {
                    login,
                    ..self.webhook()?
                }),
            })
        });
        by_url.or_else(|reason| {
            let advice = |advice| format!("{reason}, or use n8n's MCP server: {advice}");
            self.mcp(site).map(Way::Mcp).map_err(advice)
        })
    }

    /// What production URLs have in common: they exist, and we may call them. The name of the
    /// credential for that, where one is asked for.
    fn login(&self, site: Site<'_>) -> Result<Option<String>, String> {
        if !site.active {
            return Err("the workflow is not active: activate it in n8n".into());
        }
        let scheme = match self.text("authentication") {
            None | Some("none") => return Ok(None),
            Some(scheme) => scheme,
        };
        if let Some(name) = site.means.logins.of(self.node) {
            return Ok(Some(name.to_owned()));
        }
        let mut names = self.node.credentials.values();
        let name = names.find_map(|credential| credential.name.as_deref());
        Err(match name {
            Some(name) => format!(
                "its URL asks for authentication ({scheme}) with the credential {name:?}: set it \
                 in N8N_WEBHOOK_CREDENTIALS"
            ),
            None => format!(
                "its URL asks for authentication ({scheme}), which this server does not have: set \
                 it to None"
            ),
        })
    }

    fn mcp(&self, site: Site<'_>) -> Result<Mode, String> {
        if self.kind == Kind::Webhook
            && self.webhook().is_ok_and(|webhook| webhook.has_parameters())
        {
            return Err("which cannot pass the parameters in its path".into());
        }
        if !site.means.mcp {
            return Err("enable it (n8n: Settings > MCP access) and set N8N_MCP_TOKEN".into());
        }
        if !site.available_in_mcp {
            return Err("switch on 'Available in MCP' in the workflow's settings".into());
        }
        Ok(match self.kind {
            Kind::SubWorkflow => Mode::Test,
            Kind::Manual => Mode::Manual,
            _ if site.active => Mode::Production,
            _ => Mode::Manual,
        })
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.node.parameters.get(parameter).and_then(Value::as_str)
    }
}
