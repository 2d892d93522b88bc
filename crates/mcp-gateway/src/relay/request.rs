//! The request of a client at a backend: sent, followed, and asked back as often as the backend
//! wants, whatever the eras of the two.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::Options;
use mcp_core::jsonrpc::{Members, string};
use mcp_core::server::PreviousRounds;
use mcp_core::tool::{InputRequest, ToolError, ToolErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Relay;
use super::call_handler::{CallHandler, Question};
use super::client_request::ClientRequest;
use super::suspended::{Owner, SentRequest, SuspendedRequest};
use crate::backend::Backend;

/// How often a backend may ask back within one call.
const MAX_ROUNDS: usize = 20;
/// A backend's time where neither it nor the client has one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request on its way to a backend.
pub(super) struct RelayedRequest<'a> {
    pub(super) relay: &'a Relay,
    pub(super) backend: &'a Arc<Backend>,
    pub(super) method: &'static str,
    /// Its subject: a name or a URI.
    pub(super) item: &'a str,
    pub(super) may_repeat: bool,
    pub(super) client: ClientRequest<'a>,
}

/// The state that one round of a call leaves for the next. It travels through the client, sealed.
#[derive(Serialize, Deserialize)]
struct Memo {
    /// The questions that were asked.
    keys: Vec<String>,
    /// The name of the request that waits here, where one does.
    parked: Option<String>,
    /// The backend's own `requestState`, where it has one.
    state: Option<String>,
}

/// The key of a question that a backend has asked while it worked.
const QUESTION: &str = "question";

/// A result that is none yet (2026-07-28).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    #[serde(default)]
    input_requests: Map<String, Value>,
    request_state: Option<Box<RawValue>>,
}

impl RelayedRequest<'_> {
    /// Sends the request and returns its result.
    ///
    /// # Errors
    /// The result for the client, which in the modern era may be that it must answer first.
    pub(super) async fn run(mut self) -> Result<Members, ToolError> {
        let mut sent = match self.resume_suspended()? {
            Some(sent) => sent,
            None => self.send(),
        };
        for _ in 0..MAX_ROUNDS {
            let answer = self.follow(sent).await?;
            let Some(result) = Members::read(answer.get()) else {
                return Err(ToolError::upstream(format!(
                    "The backend {} answered with no object.",
                    self.backend.key
                )));
            };
            match result.get("resultType").and_then(string).as_deref() {
                // Seldom, and large: not in every call's future.
                Some("task") => return Box::pin(self.poll_to_end(&answer)).await,
                Some("input_required") => {
                    let asked: InputRequired =
                        serde_json::from_str(answer.get()).map_err(unreadable)?;
                    let answers = self.ask(&asked).await?;
                    self.set_answers(answers, asked.request_state.as_deref());
                    sent = self.send();
                }
                _ => return Ok(result),
            }
        }
        Err(ToolError::upstream(format!(
            "The backend {} asked back more than {MAX_ROUNDS} times.",
            self.backend.key
        )))
    }

    /// Sends the request.
    fn send(&self) -> SentRequest {
        let params = self.client.params.clone();
        let handler = CallHandler::new(self.client.call.clone(), self.backend.notifications());
        let mut options = Options::default()
            // Here it is known how long it may take, and when a person is waited for.
            .without_timeout()
            .handler(Arc::<CallHandler>::clone(&handler))
            .traceparent(self.client.trace.traceparent());
        if let Some(capabilities) = &self.client.capabilities {
            options = options.capabilities(Arc::clone(capabilities));
        }
        let (backend, method, may_repeat) =
            (Arc::clone(self.backend), self.method, self.may_repeat);
        let pending = async move { backend.request(method, &params, options, may_repeat).await };
        SentRequest {
            pending: Box::pin(pending),
            handler,
        }
    }

    /// Goes on with what the client has answered a question of, if this is such a call.
    fn resume_suspended(&mut self) -> Result<Option<SentRequest>, ToolError> {
        let round = self.client.call.extension::<PreviousRounds>();
        let Some(round) = round.filter(|round| !round.memo.is_null()) else {
            return Ok(None);
        };
        let lost = || {
            ToolError::new(
                ToolErrorKind::Conflict,
                "The call that asked for this has ended meanwhile. Look whether it took effect \
                 before you call again.",
            )
        };
        let memo: Memo = serde_json::from_value(round.memo.clone()).map_err(|_| lost())?;
        let answers = memo.keys.into_iter().filter_map(|key| {
            let answer = round.answers.get(&key)?.clone();
            Some((key, answer))
        });
        let mut answers: Map<String, Value> = answers.collect();
        let Some(name) = memo.parked else {
            let state = memo.state.map(RawValue::from_string).transpose();
            self.set_answers(answers, state.map_err(unreadable)?.as_deref());
            return Ok(Some(self.send()));
        };
        let suspended = self.relay.suspended.take(&name, &self.owner());
        let SuspendedRequest { request, answer } = suspended.ok_or_else(lost)?;
        request.handler.resume(self.client.call.clone());
        // A backend that has given up the question gives up the call, which is seen there.
        let _ = answer.send(answers.remove(QUESTION).unwrap_or_default());
        Ok(Some(request))
    }

    /// Waits for the result, the end of the client's patience, or a question that ends its call.
    async fn follow(&self, mut sent: SentRequest) -> Result<Box<RawValue>, ToolError> {
        let key = self.backend.key.as_str();
        let mut timeout = Box::pin(self.timeout(Arc::clone(&sent.handler)));
        let result = tokio::select! {
            biased;
            result = &mut sent.pending => result,
            question = sent.handler.question() => {
                drop(timeout);
                return Err(self.suspend(sent, question));
            }
            () = self.client.call.cancelled() => {
                let words = format!("{} was cancelled; the backend {key} was told so.", self.item);
                return Err(ToolError::new(ToolErrorKind::Cancelled, words));
            }
            after = &mut timeout => {
                self.backend.was_silent();
                let words = format!(
                    "The backend {key} did not answer within {} s and was told to stop; it may \
                     still take effect.",
                    after.as_secs_f32().round()
                );
                return Err(ToolError::new(ToolErrorKind::Timeout, words));
            }
        };
        result.map_err(|failure| failure.into_tool_error(key))
    }

    /// Ends the call with a question of the backend, which waits for the answer.
    fn suspend(&self, request: SentRequest, question: Question) -> ToolError {
        let (answer, question) = (question.answer, question.request);
        let suspended = SuspendedRequest { request, answer };
        let Some(name) = self.relay.suspended.add(suspended, self.owner()) else {
            return ToolError::unavailable(
                "Too many calls wait for answers of their users; try again later.",
            );
        };
        let memo = Memo {
            keys: vec![QUESTION.to_owned()],
            parked: Some(name),
            state: None,
        };
        self.require_input(&[(QUESTION, question)], &memo)
    }

    /// Asks the client what a backend of the modern era wants to know.
    async fn ask(&self, asked: &InputRequired) -> Result<Map<String, Value>, ToolError> {
        let requests = questions(&asked.input_requests, self.backend.key.as_str())?;
        let keys: Vec<String> = requests.iter().map(|(key, _)| (*key).to_owned()).collect();
        if self.client.call.waits_for_answers() {
            let answers = self.client.call.ask_all(requests).await?;
            return Ok(keys.into_iter().zip(answers).collect());
        }
        let memo = Memo {
            keys,
            parked: None,
            state: asked.request_state.as_ref().map(ToString::to_string),
        };
        Err(self.require_input(&requests, &memo))
    }

    fn require_input(&self, requests: &[(&str, InputRequest)], memo: &Memo) -> ToolError {
        let asked = self.client.call.require_input(requests, json!(memo));
        asked.unwrap_or_else(|error| error)
    }

    fn set_answers(&mut self, answers: Map<String, Value>, state: Option<&RawValue>) {
        let params = &mut self.client.params;
        params.set("inputResponses", &Value::Object(answers).to_string());
        match state {
            Some(state) => params.set("requestState", state.get()),
            None => params.remove("requestState"),
        }
    }

    /// Completes when the backend has had its time, which does not run while a person is asked.
    async fn timeout(&self, handler: Arc<CallHandler>) -> Duration {
        let own = self.backend.config.timeout;
        let limits = own.into_iter().chain(self.client.timeout);
        let timeout = limits.min().unwrap_or(DEFAULT_TIMEOUT);
        for _ in 0..MAX_ROUNDS {
            tokio::time::sleep(timeout).await;
            if !handler.is_asking() {
                break;
            }
        }
        timeout
    }

    fn owner(&self) -> Owner {
        Owner {
            caller: self.client.call.client().name.clone(),
            backend: self.backend.key.shared(),
            method: self.method.to_owned(),
            item: self.item.to_owned(),
        }
    }
}

/// The questions of a backend, as they can be asked on.
pub(super) fn questions<'a>(
    asked: &'a Map<String, Value>,
    backend: &str,
) -> Result<Vec<(&'a str, InputRequest)>, ToolError> {
    let request = |(key, request): (&'a String, &Value)| {
        let method = request["method"].as_str().unwrap_or_default();
        let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
        let request = InputRequest::from_backend(method, params).ok_or_else(|| {
            ToolError::upstream(format!(
                "The backend {backend} asks for something that clients are never asked."
            ))
        })?;
        Ok((key.as_str(), request))
    };
    asked.iter().map(request).collect()
}

pub(super) fn unreadable(error: serde_json::Error) -> ToolError {
    ToolError::upstream("The request could not be written as JSON.").caused_by(error)
}
