//! The triggers of a workflow, and for each of them the way by which it can be started from here.

use reqwest::Method;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::api::{Node, Workflow};

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
pub(crate) struct Site {
    /// The workflow is active.
    pub(crate) active: bool,
    /// n8n's built-in MCP server may act on the workflow.
    pub(crate) available_in_mcp: bool,
    /// We have a token for that server.
    pub(crate) mcp_configured: bool,
}

/// How a trigger is started.
#[derive(Debug, PartialEq)]
pub(crate) enum Way {
    /// Through its production URL.
    Webhook(Webhook),
    /// Through the production URL of its chat; below `/webhook/<id>/chat`.
    Chat(String),
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
}

/// A production webhook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Webhook {
    pub(crate) method: Method,
    /// Below `/webhook`; segments like `:id` are parameters.
    pub(crate) path: Vec<String>,
    /// Its reply comes when the run has ended or answers by itself, and not at once.
    pub(crate) replies_late: bool,
}

impl Kind {
    fn of(node: &Node) -> Option<Self> {
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

/// The triggers of a workflow, in the order of its nodes.
pub(crate) fn triggers(workflow: &Workflow) -> Vec<Trigger<'_>> {
    let live = workflow.live_nodes().iter().filter(|node| !node.disabled);
    live.filter_map(|node| Kind::of(node).map(|kind| Trigger { node, kind }))
        .collect()
}

impl Trigger<'_> {
    /// The way that is open, or why none is and what would open one.
    pub(crate) fn way(&self, site: Site) -> Result<Way, String> {
        let by_url = match self.kind {
            Kind::Webhook => self
                .production_url(site)
                .and_then(|()| self.webhook().map(Way::Webhook)),
            Kind::Chat => self
                .production_url(site)
                .and_then(|()| self.chat().map(Way::Chat)),
            Kind::Form | Kind::Schedule | Kind::Manual => Err(String::new()),
            Kind::SubWorkflow => {
                return Err("only another workflow can start it; add a Webhook trigger".into());
            }
            Kind::Event => return Err("only its own event starts it; add a Webhook trigger".into()),
        };
        by_url.or_else(|reason| {
            self.mcp(site)
                .map(Way::Mcp)
                .map_err(|advice| match reason.as_str() {
                    "" => format!("only n8n's MCP server can start it: {advice}"),
                    reason => format!("{reason}, or use n8n's MCP server: {advice}"),
                })
        })
    }

    /// What webhooks and chats have in common: a URL that exists and needs no credentials.
    fn production_url(&self, site: Site) -> Result<(), String> {
        if !site.active {
            return Err("the workflow is not active: activate it in n8n".into());
        }
        match self.text("authentication") {
            None | Some("none") => Ok(()),
            Some(scheme) => Err(format!(
                "its URL asks for authentication ({scheme}), which this server does not have: \
                 set it to None"
            )),
        }
    }

    /// The webhook, if it is known without running anything.
    pub(crate) fn webhook(&self) -> Result<Webhook, String> {
        let path = self.text("path").unwrap_or_default();
        if path.starts_with('=') {
            return Err("its path is an expression: make it fixed".into());
        }
        let path = path.trim_matches('/');
        let id = self.node.webhook_id.as_deref().filter(|id| !id.is_empty());
        let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
        if segments.iter().any(|segment| segment.starts_with(':')) {
            let id = id.ok_or("its path has parameters but it has no webhook id: save it again")?;
            segments.insert(0, id.to_owned());
        } else if path.is_empty() {
            segments = vec![id.ok_or("it has no path: set one")?.to_owned()];
        }
        Ok(Webhook {
            method: self.method()?,
            path: segments,
            replies_late: !matches!(self.text("responseMode"), None | Some("onReceived")),
        })
    }

    fn method(&self) -> Result<Method, String> {
        let name = match self.node.parameters.get("httpMethod") {
            None => "GET",
            Some(Value::String(name)) => name,
            // A webhook for several methods: most pass their data in a body.
            Some(Value::Array(names)) => {
                let mut names = names.iter().filter_map(Value::as_str);
                let first = names.next().unwrap_or("GET");
                if names.any(|name| name == "POST") {
                    "POST"
                } else {
                    first
                }
            }
            Some(_) => "",
        };
        match name {
            "GET" => Ok(Method::GET),
            "POST" => Ok(Method::POST),
            "PUT" => Ok(Method::PUT),
            "PATCH" => Ok(Method::PATCH),
            "DELETE" => Ok(Method::DELETE),
            "HEAD" => Ok(Method::HEAD),
            _ => Err("its HTTP method is not a fixed one: choose one".into()),
        }
    }

    fn chat(&self) -> Result<String, String> {
        if self.node.parameters.get("public") != Some(&Value::Bool(true)) {
            return Err("its chat is not public: make it public".into());
        }
        let id = self.node.webhook_id.clone().filter(|id| !id.is_empty());
        id.ok_or_else(|| "it has no webhook id: save it again in n8n".into())
    }

    fn mcp(&self, site: Site) -> Result<Mode, String> {
        if self.kind == Kind::Webhook
            && self.webhook().is_ok_and(|webhook| webhook.has_parameters())
        {
            return Err("which cannot pass the parameters in its path".into());
        }
        if !site.mcp_configured {
            return Err("enable it (n8n: Settings > MCP access) and set N8N_MCP_TOKEN".into());
        }
        if !site.available_in_mcp {
            return Err("switch on 'Available in MCP' in the workflow's settings".into());
        }
        Ok(if site.active && self.kind != Kind::Manual {
            Mode::Production
        } else {
            Mode::Manual
        })
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.node.parameters.get(parameter).and_then(Value::as_str)
    }
}

impl Webhook {
    /// True if parts of the path are to be filled in.
    pub(crate) fn has_parameters(&self) -> bool {
        self.path.iter().any(|segment| segment.starts_with(':'))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ACTIVE: Site = Site {
        active: true,
        available_in_mcp: true,
        mcp_configured: false,
    };
    const MCP: Site = Site {
        mcp_configured: true,
        ..ACTIVE
    };

    #[track_caller]
    fn way(kind: &str, parameters: Value, site: Site) -> Result<Way, String> {
        let node = json!({"name": "T", "type": kind, "webhookId": "wid", "parameters": parameters});
        let node: Node = serde_json::from_value(node).unwrap();
        let kind = Kind::of(&node).unwrap();
        Trigger { node: &node, kind }.way(site)
    }

    fn webhook(parameters: Value) -> Result<Way, String> {
        way("n8n-nodes-base.webhook", parameters, ACTIVE)
    }

    fn hook(method: Method, path: &[&str], replies_late: bool) -> Result<Way, String> {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        Ok(Way::Webhook(Webhook {
            method,
            path,
            replies_late,
        }))
    }

    #[test]
    fn a_webhook_is_its_method_and_path() {
        assert_eq!(
            webhook(json!({"path": "a"})),
            hook(Method::GET, &["a"], false)
        );
        assert_eq!(
            webhook(json!({"path": "/a/b/", "httpMethod": "POST", "responseMode": "lastNode"})),
            hook(Method::POST, &["a", "b"], true)
        );
        assert_eq!(
            webhook(json!({"path": "a/:id", "httpMethod": ["GET", "POST"]})),
            hook(Method::POST, &["wid", "a", ":id"], false)
        );
        assert_eq!(webhook(json!({})), hook(Method::GET, &["wid"], false));
        assert!(webhook(json!({"path": "={{ 1 }}"})).is_err());
        assert!(webhook(json!({"path": "a", "httpMethod": "={{ 1 }}"})).is_err());
    }

    #[test]
    fn what_is_closed_says_what_would_open_it() {
        let inactive = Site {
            active: false,
            ..ACTIVE
        };
        let closed = |result: Result<Way, String>| result.unwrap_err();
        let hook = json!({"path": "a"});
        let reason = closed(way("n8n-nodes-base.webhook", hook.clone(), inactive));
        assert!(
            reason.contains("activate it") && reason.contains("N8N_MCP_TOKEN"),
            "{reason}"
        );
        let reason = closed(webhook(
            json!({"path": "a", "authentication": "headerAuth"}),
        ));
        assert!(reason.contains("headerAuth"), "{reason}");
        let reason = closed(way("x.manualTrigger", json!({}), ACTIVE));
        assert!(reason.starts_with("only n8n's MCP server"), "{reason}");
        let reason = closed(way(
            "x.scheduleTrigger",
            json!({}),
            Site {
                available_in_mcp: false,
                ..MCP
            },
        ));
        assert!(reason.contains("Available in MCP"), "{reason}");
        for kind in ["x.executeWorkflowTrigger", "x.githubTrigger"] {
            assert!(closed(way(kind, json!({}), MCP)).contains("add a Webhook trigger"));
        }
    }

    #[test]
    fn the_mcp_server_opens_more() {
        let manual = Ok(Way::Mcp(Mode::Manual));
        let production = Ok(Way::Mcp(Mode::Production));
        assert_eq!(way("x.manualTrigger", json!({}), MCP), manual);
        assert_eq!(way("x.scheduleTrigger", json!({}), MCP), production);
        assert_eq!(way("x.formTrigger", json!({}), MCP), production);
        assert_eq!(way("x.chatTrigger", json!({}), MCP), production);
        let secured = json!({"path": "a", "authentication": "basicAuth"});
        assert_eq!(way("x.webhook", secured, MCP), production);
        assert_eq!(
            way(
                "x.webhook",
                json!({"path": "a"}),
                Site {
                    active: false,
                    ..MCP
                }
            ),
            manual
        );
        let chat = way("x.chatTrigger", json!({"public": true}), ACTIVE);
        assert_eq!(chat, Ok(Way::Chat("wid".into())));
    }
}
