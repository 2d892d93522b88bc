//! Forwards one request of a client to a backend, and the backend's questions to the client, for all
//! eras of both.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gateway_approvals::approvals::is_question;
use mcp_client::Options;
use mcp_core::jsonrpc::{MAX_NESTING, Members, string};
use mcp_core::server::PreviousRounds;
use mcp_core::tool::{InputRequest, ToolError, ToolErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Relay;
use super::call_handler::{CallHandler, Question};
use super::client_request::ClientRequest;
use super::suspended::{Owner, SentRequest, SuspendedRequest};
use crate::backend::{Backend, Caller};

/// Questions that a backend can ask within one call.
const MAX_ROUNDS: usize = 20;
/// The timeout if neither the backend nor the client has one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that is forwarded to a backend.
pub(super) struct RelayedRequest<'a> {
    pub(super) relay: &'a Relay,
    pub(super) backend: &'a Arc<Backend>,
    pub(super) method: &'static str,
    /// The name or URI in the request.
    pub(super) item: &'a str,
    pub(super) may_repeat: bool,
    pub(super) client: ClientRequest<'a>,
    /// Names the agreement of people to this call, if it needs one.
    pub(super) agreed: Option<String>,
}

/// The state between two rounds of a call. The client gets it signed, in `requestState`.
#[derive(Serialize, Deserialize)]
struct RoundState {
    /// The keys of the questions.
    keys: Vec<String>,
    /// The name of the suspended request, if there is one.
    parked: Option<String>,
    /// The `requestState` of the backend.
    state: Option<String>,
    /// Names the agreement of people to this call: [`gateway_approvals::approvals`] reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agreed: Option<String>,
}

/// The key of a question that a backend has asked in a request of its own (before 2026-07-28).
const QUESTION: &str = "question";

/// An `input_required` result (2026-07-28).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    #[serde(default)]
    input_requests: Map<String, Value>,
    request_state: Option<Box<RawValue>>,
}

impl RelayedRequest<'_> {
    /// Sends the request, or continues a suspended one, and returns its result.
    ///
    /// # Errors
    /// An error for the client; in the modern era also the questions that it must answer first.
    pub(super) async fn run(mut self) -> Result<Members, ToolError> {
        let mut sent = match self.resume_suspended()? {
            Some(sent) => sent,
            None => self.send(),
        };
        for _ in 0..MAX_ROUNDS {
            let answer = self.follow(sent).await?;
            let answer: Box<str> = answer.into();
            let Some(result) = Members::read(&answer) else {
                return Err(ToolError::upstream(format!(
                    "The backend {} answered with a result that is not an object.",
                    self.backend.key
                )));
            };
            if result.is_too_deep() {
                return Err(ToolError::upstream(format!(
                    "The backend {} answered with JSON that is nested deeper than {MAX_NESTING} levels.",
                    self.backend.key
                )));
            }
            match result.get("resultType").and_then(string).as_deref() {
                // Boxed to keep the future of every call small.
                Some("task") => return Box::pin(self.poll_to_end(&result)).await,
                Some("input_required") => {
                    let asked: InputRequired =
                        serde_json::from_str(&result.encode()).map_err(invalid_message)?;
                    let answers = self.ask(&asked).await?;
                    self.set_answers(answers, asked.request_state.as_deref());
                    sent = self.send();
                }
                _ => return Ok(result),
            }
        }
        Err(ToolError::upstream(format!(
            "The backend {} asked for input more than {MAX_ROUNDS} times.",
            self.backend.key
        )))
    }

    fn send(&self) -> SentRequest {
        let params = Arc::clone(&self.client.params);
        let handler = CallHandler::new(self.client.call.clone(), self.backend.notifications());
        let mut options = Options::default()
            // Without a timeout: `follow` has one, which stops while a person is asked.
            .without_timeout()
            .handler(Arc::<CallHandler>::clone(&handler))
            .log_level(self.client.log_level)
            .trace(self.backend.config.trace(&self.client.trace));
        if let Some(capabilities) = &self.client.capabilities {
            options = options.capabilities(Arc::clone(capabilities));
        }
        let (backend, method) = (Arc::clone(self.backend), self.method);
        let (may_repeat, caller) = (
            self.may_repeat,
            Caller::new(self.client.call, self.backend.config.isolation),
        );
        let pending = async move {
            let caller = caller.as_ref();
            backend
                .request(method, &params, options, may_repeat, caller)
                .await
        };
        SentRequest::new(Box::pin(pending), handler)
    }

    /// Continues the earlier request if this call brings the answer to its question.
    fn resume_suspended(&mut self) -> Result<Option<SentRequest>, ToolError> {
        let round = self.client.call.extension::<PreviousRounds>();
        let of_backend = |memo: &Value| !memo.is_null() && !is_question(memo);
        let Some(round) = round.filter(|round| of_backend(&round.memo)) else {
            return Ok(None);
        };
        let lost = || {
            ToolError::new(
                ToolErrorKind::Conflict,
                "The call that asked this question has ended. Check whether it took effect before \
                 you repeat it.",
            )
        };
        let state: RoundState = serde_json::from_value(round.memo.clone()).map_err(|_| lost())?;
        let answers = state.keys.into_iter().filter_map(|key| {
            let answer = round.answers.get(&key)?.clone();
            Some((key, answer))
        });
        let mut answers: Map<String, Value> = answers.collect();
        let Some(name) = state.parked else {
            let state = state.state.map(RawValue::from_string).transpose();
            self.set_answers(answers, state.map_err(invalid_message)?.as_deref());
            return Ok(Some(self.send()));
        };
        let suspended = self.relay.suspended.take(&name, &self.owner());
        let Some(SuspendedRequest { request, answer }) = suspended else {
            return Err(lost());
        };
        request.handler.resume(self.client.call.clone());
        // An error means that the backend has cancelled the question; `follow` sees the result.
        let _ = answer.send(answers.remove(QUESTION).unwrap_or_default());
        Ok(Some(request))
    }

    /// Waits for the result, a timeout, a cancellation, or a question that ends the client's call.
    async fn follow(&self, mut sent: SentRequest) -> Result<Box<RawValue>, ToolError> {
        let key = self.backend.key.as_str();
        let mut timeout = pin!(self.timeout(Arc::clone(&sent.handler)));
        let result = tokio::select! {
            biased;
            // First: it may be one of another call of this client.
            question = sent.handler.question() => return Err(self.suspend(sent, question)),
            result = &mut sent.pending => result,
            () = self.client.call.cancelled() => {
                let text = format!("{} was cancelled, also at the backend {key}.", self.item);
                return Err(ToolError::new(ToolErrorKind::Cancelled, text));
            }
            after = &mut timeout => {
                let caller = Caller::new(self.client.call, self.backend.config.isolation);
                self.backend.probe_after_timeout(caller.as_ref());
                let text = format!(
                    "The backend {key} did not answer within {} s; the call was cancelled there but \
                     may still take effect.",
                    after.as_secs_f32().round()
                );
                return Err(ToolError::new(ToolErrorKind::Timeout, text));
            }
        };
        sent.is_answered = true;
        result.map_err(|failure| failure.into_tool_error(key))
    }

    /// Suspends the request and ends the client's call with the question of the backend.
    fn suspend(&self, request: SentRequest, question: Question) -> ToolError {
        let (answer, question) = (question.answer, question.request);
        let suspended = SuspendedRequest { request, answer };
        let Some(name) = self.relay.suspended.add(suspended, self.owner()) else {
            return ToolError::unavailable(
                "Too many calls are waiting for answers from users; try again later.",
            );
        };
        let state = RoundState {
            keys: vec![QUESTION.to_owned()],
            parked: Some(name),
            state: None,
            agreed: self.agreed.clone(),
        };
        self.require_input(&[(QUESTION, question)], &state)
    }

    /// Asks the client the questions of a backend of the modern era.
    async fn ask(&self, asked: &InputRequired) -> Result<Map<String, Value>, ToolError> {
        let requests = questions(&asked.input_requests, self.backend.key.as_str())?;
        let keys: Vec<String> = requests.iter().map(|(key, _)| (*key).to_owned()).collect();
        if self.client.call.waits_for_answers() {
            let answers = self.client.call.ask_all(requests).await?;
            return Ok(keys.into_iter().zip(answers).collect());
        }
        let state = RoundState {
            keys,
            parked: None,
            state: asked.request_state.as_ref().map(ToString::to_string),
            agreed: self.agreed.clone(),
        };
        Err(self.require_input(&requests, &state))
    }

    fn require_input(&self, requests: &[(&str, InputRequest)], state: &RoundState) -> ToolError {
        let asked = self.client.call.require_input(requests, json!(state));
        asked.unwrap_or_else(|error| error)
    }

    fn set_answers(&mut self, answers: Map<String, Value>, state: Option<&RawValue>) {
        let params = Arc::make_mut(&mut self.client.params);
        params.set("inputResponses", &Value::Object(answers).to_string());
        match state {
            Some(state) => params.set("requestState", state.get()),
            None => params.remove("requestState"),
        }
    }

    /// Completes after the timeout of the backend, which does not run while a person is asked.
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

/// Converts the questions of a backend to questions for the client.
pub(super) fn questions<'a>(
    asked: &'a Map<String, Value>,
    backend: &str,
) -> Result<Vec<(&'a str, InputRequest)>, ToolError> {
    let request = |(key, request): (&'a String, &Value)| {
        let method = request["method"].as_str().unwrap_or_default();
        let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
        let request = InputRequest::from_backend(method, params).ok_or_else(|| {
            ToolError::upstream(format!(
                "The backend {backend} sent a question of an unknown type."
            ))
        })?;
        Ok((key.as_str(), request))
    };
    asked.iter().map(request).collect()
}

pub(super) fn invalid_message(error: serde_json::Error) -> ToolError {
    ToolError::upstream("A message of the backend could not be read.").caused_by(error)
}
