//! n8n's built-in MCP server: starts triggers that have no URL, and URLs that ask for credentials.
//!
//! Two generations of its `execute_workflow` are in use. They are told apart by the tool's schema:
//! the newer one demands `executionMode` and returns at once, the older one wants a `type` among
//! the inputs and returns when the run has ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_client::{CallToolResult, Client, ClientInfo, Endpoint, Error, Options};
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::Secret;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::api::{shown, under};
use crate::id::Id;
use crate::plan::{Inputs, McpStart};
use crate::trigger::Mode;

const TOOL: &str = "execute_workflow";
/// What starting a run may take where n8n does not wait for its end.
const TIMEOUT: Duration = Duration::from_secs(10);
/// n8n's own sentences are short; what is longer is something else.
const MAX_REASON: usize = 200;

/// The built-in MCP server of one n8n; connected to when it is first needed.
pub(crate) struct BuiltinMcp {
    url: Url,
    token: Secret,
    session: Mutex<Option<Arc<Session>>>,
}

/// A connection with one token.
struct Session {
    token: String,
    client: Client,
    generation: OnceCell<Generation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// n8n 1: waits for the end.
    Waiting,
    /// n8n 2: returns the id at once.
    Starting,
}

/// A run that was started.
pub(super) enum Started {
    Known(Id),
    /// n8n gave no id in time.
    Unknown,
}

impl BuiltinMcp {
    pub(crate) fn new(base: &Url, token: Secret) -> Self {
        Self {
            url: under(base, ["mcp-server", "http"]),
            token,
            session: Mutex::new(None),
        }
    }

    /// True if there is a token, or a file that one may appear in.
    pub(crate) fn is_configured(&self) -> bool {
        self.token.is_configured()
    }

    /// Starts a run of `workflow`; where n8n waits for its end, at most for `wait`.
    ///
    /// # Errors
    /// When it was not started, or nobody can tell.
    pub(super) async fn start(
        &self,
        workflow: &Id,
        start: &McpStart,
        wait: Duration,
    ) -> Result<Started, ToolError> {
        let session = self.session()?;
        let generation = session.generation.get_or_try_init(|| session.meet());
        let generation = match generation.await {
            Ok(generation) => *generation,
            Err(error) => return Err(self.explain(error)),
        };
        let (arguments, timeout) = match generation {
            Generation::Starting => (newer(workflow, start), TIMEOUT),
            Generation::Waiting => (older(workflow, start), wait.max(Duration::from_secs(1))),
        };
        let options = Options::default().timeout(timeout);
        match session
            .client
            .call_tool_with(TOOL, &arguments, options)
            .await
        {
            Ok(result) => self.started(&result),
            // It may run: it is looked for, and not started again.
            Err(Error::Timeout { .. } | Error::Closed { .. }) => Ok(Started::Unknown),
            Err(error) => {
                self.forget();
                Err(self.explain(error))
            }
        }
    }

    fn session(&self) -> Result<Arc<Session>, ToolError> {
        let missing = || {
            ToolError::new(
                ToolErrorKind::Unauthorized,
                "The token of n8n's MCP server is not there (yet): check N8N_MCP_TOKEN or \
                 N8N_MCP_TOKEN_FILE.",
            )
        };
        let token = self
            .token
            .get()
            .map_err(|error| missing().caused_by(error))?;
        let token = token.ok_or_else(missing)?;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        match &*session {
            Some(session) if session.token == token => Ok(Arc::clone(session)),
            _ => {
                let new = Endpoint::new(self.url.as_str())
                    .and_then(|endpoint| endpoint.bearer(&token))
                    .and_then(Client::http)
                    .map_err(|error| self.explain(error))?;
                let new = Arc::new(Session {
                    token,
                    client: new,
                    generation: OnceCell::new(),
                });
                *session = Some(Arc::clone(&new));
                Ok(new)
            }
        }
    }

    /// The next start connects anew: n8n may have been changed or replaced.
    fn forget(&self) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn started(&self, result: &CallToolResult) -> Result<Started, ToolError> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Reply {
            execution_id: Option<String>,
            error: Option<Value>,
        }
        let text = result.text();
        let json = result
            .structured_content
            .as_deref()
            .map_or(text.as_str(), |raw| raw.get());
        let reply: Reply = serde_json::from_str(json).unwrap_or_default();
        if let Some(id) = reply.execution_id {
            return Id::try_from(id)
                .map(Started::Known)
                .map_err(ToolError::upstream);
        }
        self.forget();
        let reason = match &reply.error {
            Some(Value::String(reason)) => reason,
            Some(error) => error
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            None => &text,
        };
        Err(ToolError::new(
            ToolErrorKind::Conflict,
            format!(
                "n8n's MCP server did not start the workflow: {}",
                first_line(reason)
            ),
        ))
    }

    fn explain(&self, error: Error) -> ToolError {
        use ToolErrorKind::{Timeout, Unauthorized, Unavailable, Upstream};
        let address = shown(&self.url);
        let (kind, text) = match &error {
            Error::Http {
                status: 401 | 403, ..
            } => (
                Unauthorized,
                format!(
                    "n8n's MCP server at {address} refuses the token. Copy it again from n8n \
                     (Settings > MCP access) into N8N_MCP_TOKEN."
                ),
            ),
            Error::Http { status: 404, .. } | Error::SessionLost { .. } => (
                Unavailable,
                format!(
                    "There is no MCP server at {address}. Enable it in n8n (Settings > MCP \
                     access), or activate the workflow and give it a Webhook trigger."
                ),
            ),
            Error::Http { status: 429, .. } => (
                Unavailable,
                format!("n8n's MCP server at {address} limits its rate. Try again in a while."),
            ),
            Error::Unreachable { .. } => (
                Unavailable,
                format!("n8n's MCP server at {address} cannot be reached; nothing was started."),
            ),
            Error::Timeout { .. } => (
                Timeout,
                format!("n8n's MCP server at {address} did not answer; nothing was started."),
            ),
            _ => (
                Upstream,
                format!("n8n's MCP server at {address} answered in a way that is not understood."),
            ),
        };
        ToolError::new(kind, text).caused_by(error)
    }
}

impl Session {
    /// The handshake, and which generation it is.
    async fn meet(&self) -> Result<Generation, Error> {
        let us = ClientInfo::new("n8n-mcp-server", env!("CARGO_PKG_VERSION"));
        self.client.initialize(&us).await?;
        let tools = self.client.list_tools().await?;
        let tool = tools.iter().find(|tool| tool.name == TOOL);
        let schema = tool.and_then(|tool| tool.input_schema.as_deref());
        Ok(generation(schema.map_or("", |schema| schema.get())))
    }
}

fn generation(schema: &str) -> Generation {
    #[derive(Default, Deserialize)]
    struct Schema {
        properties: Properties,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Properties {
        execution_mode: Option<serde::de::IgnoredAny>,
    }
    let schema: Schema = serde_json::from_str(schema).unwrap_or_default();
    match schema.properties.execution_mode {
        Some(_) => Generation::Starting,
        None => Generation::Waiting,
    }
}

fn newer(workflow: &Id, start: &McpStart) -> Value {
    let mode = match start.mode {
        Mode::Production => "production",
        Mode::Manual => "manual",
    };
    let mut arguments = json!({
        "workflowId": workflow.as_str(),
        "executionMode": mode,
        "triggerNodeName": start.trigger,
    });
    match &start.inputs {
        Inputs::None => {}
        Inputs::Webhook(data) => arguments["inputs"] = json!({ "webhookData": data }),
        Inputs::Chat(text) => arguments["inputs"] = json!({ "chatInput": text }),
        Inputs::Form(data) => arguments["inputs"] = json!({ "formData": data }),
    }
    arguments
}

fn older(workflow: &Id, start: &McpStart) -> Value {
    let mut arguments = json!({ "workflowId": workflow.as_str() });
    match &start.inputs {
        Inputs::None => {}
        Inputs::Webhook(data) => {
            arguments["inputs"] = json!({ "type": "webhook", "webhookData": data });
        }
        Inputs::Chat(text) => arguments["inputs"] = json!({ "type": "chat", "chatInput": text }),
        Inputs::Form(data) => arguments["inputs"] = json!({ "type": "form", "formData": data }),
    }
    arguments
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MAX_REASON)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_told_apart_by_the_schema() {
        let newer =
            r#"{"type":"object","properties":{"workflowId":{},"executionMode":{"enum":[]}}}"#;
        let older = r#"{"type":"object","properties":{"workflowId":{},"inputs":{}}}"#;
        assert_eq!(generation(newer), Generation::Starting);
        assert_eq!(generation(older), Generation::Waiting);
        assert_eq!(generation(""), Generation::Waiting);
    }

    #[test]
    fn each_generation_gets_its_arguments() {
        let id = Id::try_from("w1".to_owned()).unwrap();
        let mut start = McpStart {
            trigger: "T".into(),
            mode: Mode::Production,
            inputs: Inputs::Chat("hi".into()),
        };
        assert_eq!(
            newer(&id, &start),
            json!({"workflowId": "w1", "executionMode": "production", "triggerNodeName": "T", "inputs": {"chatInput": "hi"}})
        );
        assert_eq!(
            older(&id, &start),
            json!({"workflowId": "w1", "inputs": {"type": "chat", "chatInput": "hi"}})
        );
        (start.mode, start.inputs) = (Mode::Manual, Inputs::None);
        assert_eq!(
            newer(&id, &start),
            json!({"workflowId": "w1", "executionMode": "manual", "triggerNodeName": "T"})
        );
    }
}
