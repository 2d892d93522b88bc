//! n8n's built-in MCP server: starts triggers that have no URL, and URLs that ask for credentials.

mod generation;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_client::{CallToolResult, Client, ClientInfo, Endpoint, Error, Options};
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::Secret;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{OnceCell, SetOnce};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{ACTIVATION, ACTIVATION_PAUSE};
use crate::api::{shown, under};
use crate::id::Id;
use crate::plan::McpStart;
use crate::trigger::Mode;

use generation::Generation;

/// What an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What starting a run may take where n8n does not wait for its end, if the caller waits as long:
/// without the answer nobody knows which execution it is.
const SLOW_START: Duration = Duration::from_secs(60);
/// What n8n says of a workflow whose activation has not come through; nothing was started then.
const UNPUBLISHED: &str = "has no published (active) version";
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
    offer: OnceCell<Offer>,
}

/// What the server has.
struct Offer {
    generation: Generation,
    tools: HashSet<String>,
}

/// A call that starts a run, under way. It goes on if this is dropped: so does the run.
pub(super) struct Starting {
    pub(super) answer: JoinHandle<Result<Result<Id, String>, Error>>,
    /// n8n answers when the run has ended, so that its execution may be found before.
    pub(super) waits: bool,
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

    /// Calls any tool of the server that starts nothing; `None` where this n8n does not have it.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
    ) -> Result<Option<CallToolResult>, ToolError> {
        let session = self.session()?;
        if !self.offer(&session).await?.tools.contains(tool) {
            return Ok(None);
        }
        let asked = Box::pin(session.client.call_tool(tool, arguments)).await;
        asked.map(Some).map_err(|error| {
            self.forget();
            self.explain(error)
        })
    }

    /// Starts a run of `workflow`; where n8n waits for its end, its answer may take up to `within`.
    /// The id in it goes to `known`, whether or not anybody waits for the answer.
    ///
    /// # Errors
    /// When nothing was started.
    pub(super) async fn start(
        &self,
        workflow: &Id,
        start: &McpStart,
        request_id: &str,
        within: Duration,
        known: &Arc<SetOnce<Id>>,
    ) -> Result<Starting, ToolError> {
        let session = self.session()?;
        let Offer { generation, tools } = self.offer(&session).await?;
        let (generation, is_test) = (*generation, start.mode == Mode::Test);
        if is_test && !tools.contains(generation::TEST) {
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                "The MCP server of this n8n has no test mode, which hands parameters to manual \
                 triggers and sub-workflows. Give the workflow a Webhook trigger and activate it, \
                 or update n8n.",
            ));
        }
        if !is_test && generation == Generation::Waiting && !start.is_default {
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                "The MCP server of this n8n starts only the first trigger of an active workflow. \
                 Activate it in n8n and give it a Webhook trigger, or update n8n.",
            ));
        }
        let (tool, arguments) = generation.call(workflow, start, request_id);
        let waits = is_test || generation == Generation::Waiting;
        let timeout = if waits {
            within
        } else {
            within.clamp(TIMEOUT, SLOW_START)
        };
        let retries = start.mode == Mode::Production;
        let session = Arc::clone(&session);
        let known = Arc::clone(known);
        let answer = Box::pin(async move {
            let answer = session.start(tool, &arguments, timeout, retries).await;
            if let Ok(Ok(id)) = &answer {
                // Known already: it is the same one.
                let _ = known.set(id.clone());
            }
            answer
        });
        Ok(Starting {
            answer: tokio::spawn(answer),
            waits,
        })
    }

    /// What came of [`BuiltinMcp::start`].
    ///
    /// # Errors
    /// When it was not started, or nobody can tell.
    pub(super) fn started(
        &self,
        answer: Result<Result<Id, String>, Error>,
    ) -> Result<Started, ToolError> {
        match answer {
            Ok(Ok(id)) => Ok(Started::Known(id)),
            Ok(Err(reason)) => {
                self.forget();
                Err(ToolError::new(
                    ToolErrorKind::Conflict,
                    format!("n8n's MCP server did not start the workflow: {reason}"),
                ))
            }
            // It may run: it is looked for, and not started again.
            Err(error) if is_unclear(&error) => Ok(Started::Unknown),
            Err(error) => {
                self.forget();
                Err(self.explain(error))
            }
        }
    }

    async fn offer<'a>(&self, session: &'a Session) -> Result<&'a Offer, ToolError> {
        // A client's calls are large: on the heap they leave the stack to those who wait for them.
        let offer = session.offer.get_or_try_init(|| Box::pin(session.meet()));
        let offer = offer.await;
        offer.map_err(|error| self.explain(error))
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
                    .and_then(|endpoint| Client::builder().timeout(TIMEOUT).http(endpoint))
                    .map_err(|error| self.explain(error))?;
                let new = Arc::new(Session {
                    token,
                    client: new,
                    offer: OnceCell::new(),
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

/// True if n8n may have started the workflow all the same.
fn is_unclear(error: &Error) -> bool {
    match error {
        Error::Timeout { .. } | Error::Closed { .. } | Error::Protocol { .. } => true,
        Error::Http { status, .. } => *status >= 500,
        _ => false,
    }
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
    let json = result
        .structured_content
        .as_deref()
        .map_or(text.as_str(), |raw| raw.get());
    let reply: Reply = serde_json::from_str(json).unwrap_or_default();
    let reason = match &reply.error {
        Some(Value::String(reason)) => reason,
        Some(error) => error
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        None => &text,
    };
    reply.execution_id.ok_or_else(|| first_line(reason))
}

impl Session {
    /// The handshake, and what there is.
    async fn meet(&self) -> Result<Offer, Error> {
        let us = ClientInfo::new("n8n-mcp-server", env!("CARGO_PKG_VERSION"));
        self.client.initialize(&us).await?;
        let tools = self.client.list_tools().await?;
        let tool = tools.iter().find(|tool| tool.name == generation::EXECUTE);
        let schema = tool.and_then(|tool| tool.input_schema.as_deref());
        Ok(Offer {
            generation: Generation::of(schema.map_or("", |schema| schema.get())),
            tools: tools.into_iter().map(|tool| tool.name).collect(),
        })
    }

    /// Starts a run. Rides out its workflow's activation, before which n8n starts nothing; nothing
    /// else is sent twice.
    async fn start(
        &self,
        tool: &str,
        arguments: &Value,
        timeout: Duration,
        retries: bool,
    ) -> Result<Result<Id, String>, Error> {
        let known_by = Instant::now() + ACTIVATION;
        loop {
            let options = Options::default().timeout(timeout);
            let result = self.client.call_tool_with(tool, arguments, options).await?;
            let outcome = outcome(&result);
            let not_yet = matches!(&outcome, Err(reason) if reason.contains(UNPUBLISHED));
            if !(not_yet && retries) || Instant::now() >= known_by {
                return Ok(outcome);
            }
            sleep(ACTIVATION_PAUSE).await;
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MAX_REASON)
        .collect()
}
