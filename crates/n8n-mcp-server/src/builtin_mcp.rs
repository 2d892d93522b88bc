//! Client of n8n's built-in MCP server, which also starts triggers without a URL, and those whose
//! URL requires credentials.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{CallToolResult, Client, ClientInfo, Endpoint, Error, Options};
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_core::trace::{self, TraceContext};
use mcp_serve::Secret;
use n8n_workflow::Id;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OnceCell, SetOnce};
use tokio::time::{Instant, sleep};
use upstream::http::{Url, display_url, join_path, whole_characters};
use upstream::text::first_line;

use crate::production_url::Pending;
use crate::production_url::{ACTIVATION_INTERVAL, ACTIVATION_TIMEOUT};
use crate::start_method::StartMethod;

const EXECUTE: &str = "execute_workflow";
const TEST: &str = "test_workflow";
/// As long as for n8n's API.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest wait for the answer to a start, if the caller waits as long and n8n does not wait
/// for the end of the run: without the answer the execution is unknown.
const MAX_START_TIMEOUT: Duration = Duration::from_secs(60);
/// n8n's words for a workflow that is not published yet; nothing was started then.
const UNPUBLISHED: &str = "has no published (active) version";
/// n8n's own sentences are shorter.
const MAX_REASON: usize = 200;

/// The built-in MCP server of one n8n. Connects when it is first used.
pub(crate) struct BuiltinMcp {
    url: Url,
    token: Secret,
    session: Mutex<Option<Arc<Session>>>,
}

struct Session {
    token: String,
    client: Client,
    /// The names of its tools.
    tools: OnceCell<HashSet<String>>,
}

impl BuiltinMcp {
    /// Without the user of the address, since the token takes the same header.
    pub(crate) fn new(base: &Url, token: Secret) -> Self {
        let mut url = join_path(base, ["mcp-server", "http"]);
        // Both fail only for URLs without a host, for which there is no client.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self {
            url,
            token,
            session: Mutex::new(None),
        }
    }

    /// True if there is a token, or a file that one may appear in.
    pub(crate) fn is_configured(&self) -> bool {
        self.token.is_configured()
    }

    /// Calls a tool that starts no workflow; `None` if this n8n does not have the tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
    ) -> Result<Option<CallToolResult>, ToolError> {
        let session = self.session()?;
        if !self.tools(&session).await?.contains(tool) {
            return Ok(None);
        }
        let asked = Box::pin(session.client.call_tool(tool, arguments)).await;
        asked.map(Some).map_err(|error| {
            self.drop_session();
            self.explain(error)
        })
    }

    /// Starts a run of `workflow`; if n8n waits for its end, the answer may take up to `within`. It is the id of the
    /// execution, or `None` if n8n did not return it in time: it may run or not. Stores the id in `known`, even if the caller has
    /// gone by then.
    pub(crate) async fn start(
        self: &Arc<Self>,
        way: StartMethod,
        mut arguments: Value,
        workflow: &Id,
        within: Duration,
        known: &Arc<SetOnce<Id>>,
    ) -> Result<Pending<Option<Id>>, ToolError> {
        let session = self.session()?;
        // Nothing is started before the server has answered.
        let tools = self.tools(&session).await?;
        let answers_at_end = way == StartMethod::McpTest;
        if answers_at_end && !tools.contains(TEST) {
            return Err(ToolError::conflict(
                "The MCP server of this n8n has no test mode, which passes parameters to manual \
                 triggers and sub-workflows. Give the workflow a Webhook trigger and activate it, \
                 or update n8n.",
            ));
        }
        let tool = if answers_at_end { TEST } else { EXECUTE };
        arguments["workflowId"] = workflow.as_str().into();
        let timeout = if answers_at_end {
            within
        } else {
            within.clamp(ANSWER_TIMEOUT, MAX_START_TIMEOUT)
        };
        let retries = way == StartMethod::McpProduction;
        let (server, session) = (Arc::clone(self), Arc::clone(&session));
        let known = Arc::clone(known);
        Ok(Pending::spawn(Box::pin(async move {
            let answer = session.start(tool, &arguments, timeout, retries).await;
            let id = server.start_result(answer)?;
            if let Some(id) = &id {
                // If an id was stored before, it is the same one.
                let _ = known.set(id.clone());
            }
            Ok(id)
        })))
    }

    fn start_result(
        &self,
        answer: Result<Result<Id, String>, Error>,
    ) -> Result<Option<Id>, ToolError> {
        let error = match answer {
            Ok(Ok(id)) => return Ok(Some(id)),
            // It may run: the caller looks for it, and does not start it again.
            Err(error) if may_have_started(&error) => return Ok(None),
            Ok(Err(reason)) => ToolError::conflict(format!(
                "n8n's MCP server did not start the workflow: {reason}"
            )),
            Err(error) => self.explain(error),
        };
        self.drop_session();
        Err(error)
    }

    async fn tools<'a>(&self, session: &'a Session) -> Result<&'a HashSet<String>, ToolError> {
        // The futures of a client's calls are large: boxed they do not grow those that await them.
        let tools = session
            .tools
            .get_or_try_init(|| Box::pin(session.read_tools()));
        tools.await.map_err(|error| self.explain(error))
    }

    fn session(&self) -> Result<Arc<Session>, ToolError> {
        let missing = || {
            ToolError::unauthorized(
                "The token of n8n's MCP server is missing or cannot be read (yet): check \
                 N8N_MCP_TOKEN or N8N_MCP_TOKEN_FILE.",
            )
        };
        let token = self
            .token
            .get()
            .map_err(|error| missing().caused_by(error))?;
        let token = token.ok_or_else(missing)?;
        let mut session = self.session.lock();
        match &*session {
            Some(session) if session.token == token => Ok(Arc::clone(session)),
            _ => {
                let client = Endpoint::new(self.url.as_str())
                    .and_then(|endpoint| endpoint.bearer(&token))
                    .and_then(|endpoint| Client::builder().timeout(ANSWER_TIMEOUT).http(endpoint))
                    .map_err(|error| self.explain(error))?;
                let tools = OnceCell::new();
                let new = Arc::new(Session {
                    token,
                    client,
                    tools,
                });
                *session = Some(Arc::clone(&new));
                Ok(new)
            }
        }
    }

    /// Makes the next call connect again: n8n may have been changed or replaced.
    fn drop_session(&self) {
        *self.session.lock() = None;
    }

    fn explain(&self, error: Error) -> ToolError {
        use ToolErrorKind::{Timeout, Unauthorized, Unavailable, Upstream};
        let (kind, text) = match &error {
            Error::Http {
                status: 401 | 403, ..
            } => (
                Unauthorized,
                "n8n's MCP server at {address} refuses the token. Copy it again from n8n (Settings \
                 > MCP access) into N8N_MCP_TOKEN.",
            ),
            Error::Http { status: 404, .. } | Error::SessionLost { .. } => (
                Unavailable,
                "There is no MCP server at {address}. Enable it in n8n (Settings > MCP access), or \
                 activate the workflow and give it a Webhook trigger.",
            ),
            Error::Http { status: 429, .. } => (
                Unavailable,
                "n8n's MCP server at {address} limits the rate of requests. Try again in a while.",
            ),
            Error::Unreachable { .. } => (
                Unavailable,
                "n8n's MCP server at {address} cannot be reached: {cause}; nothing was started.",
            ),
            Error::Timeout { .. } => (
                Timeout,
                "n8n's MCP server at {address} did not answer; nothing was started.",
            ),
            _ => (
                Upstream,
                "n8n's MCP server at {address} sent a response that cannot be read.",
            ),
        };
        let mut text = text.replace("{address}", &display_url(&self.url));
        if let Error::Unreachable { source, .. } = &error {
            text = text.replace("{cause}", &mcp_client::cause(source.as_ref()));
        }
        ToolError::new(kind, text).caused_by(error)
    }
}

/// True if n8n may have started the workflow despite the error.
fn may_have_started(error: &Error) -> bool {
    match error {
        Error::Timeout { .. }
        | Error::Closed { .. }
        | Error::Protocol { .. }
        | Error::InvalidAnswer { .. } => true,
        Error::Http { status, .. } => *status >= 500,
        _ => false,
    }
}

pub(crate) fn structured<T: DeserializeOwned>(result: &CallToolResult) -> Option<T> {
    let json = result.structured_content.as_deref()?;
    whole_json(json.get())
}

/// Reads JSON in which n8n may have cut a text in the middle of a character.
fn whole_json<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_slice(&whole_characters(json.as_bytes())).ok()
}

/// The id of the execution, or n8n's reason for not starting one.
fn outcome(result: &CallToolResult) -> Result<Id, String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Reply {
        execution_id: Option<Id>,
        error: Option<Value>,
    }
    let text = result.text();
    let reply = structured(result).or_else(|| whole_json(&text));
    let reply: Reply = reply.unwrap_or_default();
    let reason = match &reply.error {
        Some(Value::String(reason)) => reason,
        Some(error) => error["message"].as_str().unwrap_or_default(),
        None => &text,
    };
    reply
        .execution_id
        .ok_or_else(|| first_line(reason, MAX_REASON))
}

impl Session {
    async fn read_tools(&self) -> Result<HashSet<String>, Error> {
        let us = ClientInfo::new("n8n-mcp-server", env!("CARGO_PKG_VERSION"));
        self.client.initialize(&us).await?;
        let tools = self.client.list_tools().await?;
        Ok(tools.iter().map(|tool| tool.name.clone()).collect())
    }

    /// Starts a run. Retries only while the workflow's activation is pending, when n8n starts
    /// nothing; everything else is sent once.
    async fn start(
        &self,
        tool: &str,
        arguments: &Value,
        timeout: Duration,
        retries: bool,
    ) -> Result<Result<Id, String>, Error> {
        let known_by = Instant::now() + ACTIVATION_TIMEOUT;
        loop {
            let options = Options::default()
                .timeout(timeout)
                .trace(trace::current().map(TraceContext::without_baggage));
            let result = self.client.call_tool_with(tool, arguments, options).await?;
            let outcome = outcome(&result);
            let not_yet = matches!(&outcome, Err(reason) if reason.contains(UNPUBLISHED));
            if !(not_yet && retries) || Instant::now() >= known_by {
                return Ok(outcome);
            }
            sleep(ACTIVATION_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn server_that_cannot_be_reached_is_refused_with_the_cause() {
        // Nobody listens there.
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        let server = BuiltinMcp::new(&url, Secret::new(Some("token".to_owned()), None));
        let error = server.call("any", &Value::Null).await.unwrap_err();
        let reason = "cannot be reached: the connection was refused";
        assert!(error.message().contains(reason), "{error}");
    }
}
