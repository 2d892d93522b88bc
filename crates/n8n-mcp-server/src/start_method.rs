//! The method by which this server can start a trigger, if it can.

#[cfg(test)]
mod tests;

use n8n_workflow::trigger::{Trigger, TriggerKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::webhook_credentials::WebhookCredentials;

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
            return Err("the workflow is not active: activate it in n8n".into());
        }
        if let (Some(scheme), None) = (trigger.authentication(), self.credential(trigger)) {
            let mut names = trigger.node.credentials.values();
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
