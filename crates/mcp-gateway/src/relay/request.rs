//! Forwards one request of a client to a backend, and the backend's questions to the client, for all
//! eras of both.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_approvals::approvals::is_question;
use gateway_store::events::{Event, FinishedRequest, Outcome, OwnTexts, TraceId, trace_of};
use mcp_client::Options;
use mcp_core::era::Era;
use mcp_core::jsonrpc::{
    ErrorObject, INTERNAL_ERROR, MAX_NESTING, Members, is_too_deep, member, string,
};
use mcp_core::metrics::OperationLabels;
use mcp_core::server::{DeniedBy, OriginalRequest, PreviousRounds};
use mcp_core::tool::{Call, ClientCapabilities, InputRequest, LogLevel, ToolError, ToolErrorKind};
use mcp_core::trace::TraceContext;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::Relay;
use super::questions::{Asker, CallHandler, Owner, Question, SentRequest, SuspendedRequest};
use crate::backend::{APPS, Backend, RequestError, cancelled};

/// Results `input_required`, and requests for more time, of a backend within one call.
const MAX_ROUNDS: usize = 20;
/// The kind of a failure of which only the result of a backend tells.
const TOOL_ERROR: &str = "tool_error";
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
    /// The backend as its questions see it.
    pub(super) asker: Asker,
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
    /// The number of questions within the call.
    #[serde(default)]
    asked: usize,
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
                    "The backend {} answered with a result that is not an object; check whether the call took effect \
                     before you repeat it.",
                    self.backend.key
                )));
            };
            if is_too_deep(&answer) {
                return Err(ToolError::upstream(format!(
                    "The backend {} answered with JSON that is nested deeper than {MAX_NESTING} levels; check whether the \
                     call took effect before you repeat it.",
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
        let (call, answers) = (self.client.call.clone(), self.client.answers.clone());
        let (asker, fallback) = (self.asker.clone(), Arc::clone(&self.backend.notifications));
        let (handler, questions) = CallHandler::new(call, answers, asker, fallback);
        let mut options = Options::default()
            // Without a timeout: `follow` has one, which stops while a person is asked.
            .without_timeout()
            .handler(Arc::<CallHandler>::clone(&handler))
            .log_level(self.client.log_level)
            .headers(self.backend.headers_of(self.client.call))
            .trace(self.backend.config.trace(&self.client.trace));
        if let Some(capabilities) = &self.client.capabilities {
            options = options.capabilities(Arc::clone(capabilities));
        }
        let (backend, method) = (Arc::clone(self.backend), self.method);
        let (may_repeat, caller) = (self.may_repeat, self.backend.caller(self.client.call));
        let pending = async move {
            let caller = caller.as_ref();
            backend
                .request(method, &params, options, may_repeat, caller)
                .await
        };
        SentRequest::new(Box::pin(pending), handler, questions)
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
        let all = &self.client.answers;
        let Some(name) = state.parked else {
            answers.values().for_each(|answer| all.add(answer));
            let state = state.state.map(RawValue::from_string).transpose();
            self.set_answers(answers, state.map_err(invalid_message)?.as_deref());
            return Ok(Some(self.send()));
        };
        let suspended = self.relay.suspended.take(&name, &self.owner());
        let SuspendedRequest {
            request, answer, ..
        } = suspended.ok_or_else(lost)?;
        request.handler.resume(self.client.call.clone());
        let earlier = &request.handler.answers;
        answers.values().for_each(|answer| earlier.add(answer));
        all.continue_from(earlier);
        // An error means that the backend has cancelled the question; `follow` sees the result.
        let _ = answer.send(answers.remove(QUESTION).unwrap_or_default());
        Ok(Some(request))
    }

    /// Waits for the result, a timeout, a cancellation, or a question that ends the client's call.
    async fn follow(&self, mut sent: SentRequest) -> Result<Box<RawValue>, ToolError> {
        let key = self.backend.key.as_str();
        let mut timeout = pin!(self.timeout(Arc::clone(&sent.handler)));
        // The client may leave without cancelling the call, and not be able to resume its stream.
        let origin = self.client.call.extension::<OriginalRequest>();
        let left = origin.and_then(|origin| origin.caller.disconnected.as_deref());
        let mut left = pin!(cancelled(left));
        let mut has_left = false;
        let result = loop {
            tokio::select! {
                biased;
                // First: it may be one of another call of this client. The backend may have withdrawn it.
                Some(question) = sent.questions.recv() => {
                    if !question.answer.is_closed() {
                        return Err(self.suspend(sent, *question));
                    }
                }
                result = &mut sent.pending => break result,
                // Nobody answers its questions any more, which keep those of others waiting.
                () = &mut left, if !has_left => {
                    has_left = true;
                    sent.handler.end();
                }
                () = self.client.call.cancelled() => {
                    let text = format!("{} was cancelled, also at the backend {key}.", self.item);
                    return Err(ToolError::new(ToolErrorKind::Cancelled, text));
                }
                after = &mut timeout => {
                    let caller = self.backend.caller(self.client.call);
                    self.backend.probe_after_timeout(caller.as_ref());
                    let text = format!(
                        "The backend {key} did not answer within {} s; the call was cancelled there but \
                         may still take effect.",
                        after.as_secs_f32().round()
                    );
                    return Err(ToolError::new(ToolErrorKind::Timeout, text));
                }
            }
        };
        sent.is_answered = true;
        result.map_err(|failure| match failure {
            RequestError::Rpc(error) => RequestError::Rpc(self.asker.error(error)).into(),
            RequestError::Failed(error) => error,
        })
    }

    /// Suspends the request and ends the client's call with the question of the backend.
    fn suspend(&self, request: SentRequest, question: Question) -> ToolError {
        let (all, owner) = (&self.relay.suspended, self.owner());
        let (backend, caller) = (
            Arc::clone(self.backend),
            self.backend.caller(self.client.call),
        );
        let in_the_way = backend.until_in_the_way(caller, self.limit());
        let Some(name) = all.add(request, question.answer, owner, in_the_way) else {
            return ToolError::unavailable(
                "Too many calls are waiting for answers from users; try again later.",
            );
        };
        let state = RoundState {
            keys: vec![QUESTION.to_owned()],
            parked: Some(name),
            state: None,
            asked: self.asker.asked(),
            agreed: self.agreed.clone(),
        };
        self.require_input(&[(QUESTION, question.request)], &state)
    }

    /// Asks the client the questions of a backend of the modern era.
    async fn ask(&self, asked: &InputRequired) -> Result<Map<String, Value>, ToolError> {
        let requests = self.questions(&asked.input_requests)?;
        if self.client.call.waits_for_answers() {
            return self.answers_to(requests).await;
        }
        let keys = requests.iter().map(|(key, _)| (*key).to_owned());
        let state = RoundState {
            keys: keys.collect(),
            parked: None,
            state: asked.request_state.as_ref().map(ToString::to_string),
            asked: self.asker.asked(),
            agreed: self.agreed.clone(),
        };
        Err(self.require_input(&requests, &state))
    }

    /// Asks the client, and waits for its answers to all questions.
    async fn answers_to(
        &self,
        requests: Vec<(&str, InputRequest)>,
    ) -> Result<Map<String, Value>, ToolError> {
        let keys: Vec<String> = requests.iter().map(|(key, _)| (*key).to_owned()).collect();
        let answers = self.client.call.ask_all(requests).await?;
        for answer in &answers {
            self.client.answers.add(answer);
        }
        Ok(keys.into_iter().zip(answers).collect())
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

    /// The timeout of the call at the backend.
    fn limit(&self) -> Duration {
        let own = self.backend.config.timeout;
        let limits = own.into_iter().chain(self.client.timeout);
        limits.min().unwrap_or(DEFAULT_TIMEOUT)
    }

    /// Completes after the timeout of the backend, which does not run while a person is asked.
    async fn timeout(&self, handler: Arc<CallHandler>) -> Duration {
        let timeout = self.limit();
        for _ in 0..MAX_ROUNDS {
            tokio::time::sleep(timeout).await;
            if !handler.is_asking() {
                break;
            }
        }
        timeout
    }

    /// Converts the questions of the backend to questions for the client.
    pub(super) fn questions<'q>(
        &self,
        asked: &'q Map<String, Value>,
    ) -> Result<Vec<(&'q str, InputRequest)>, ToolError> {
        let backend = &self.backend.key;
        let request = |(key, request): (&'q String, &Value)| {
            let method = request["method"].as_str().unwrap_or_default();
            let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
            let question = self.asker.question(method, params).map_err(|reason| {
                let text = format!("The backend {backend} asks a question, and {reason}.");
                ToolError::new(ToolErrorKind::Upstream, text)
            })?;
            let unknown = || {
                let text = format!("The backend {backend} sent a question of an unknown type.");
                ToolError::upstream(text)
            };
            Ok((key.as_str(), question.ok_or_else(unknown)?))
        };
        asked.iter().map(request).collect()
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

pub(super) fn invalid_message(error: serde_json::Error) -> ToolError {
    ToolError::upstream("A message of the backend could not be read.").caused_by(error)
}

/// The default of `pollIntervalMs` …
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// … and its limits.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of one poll.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A task of a backend.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackendTask {
    task_id: String,
    status: String,
    #[serde(default)]
    status_message: Option<String>,
    #[serde(default)]
    poll_interval_ms: Option<u64>,
    #[serde(default)]
    input_requests: Map<String, Value>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Value>,
}

impl RelayedRequest<'_> {
    /// Polls the task that the backend has created until it ends, and returns its result.
    ///
    /// # Errors
    /// The error of the task, or its cancellation.
    pub(super) async fn poll_to_end(&self, created: &Members) -> Result<Members, ToolError> {
        let call = self.client.call;
        let mut task: BackendTask =
            serde_json::from_str(&created.encode()).map_err(invalid_message)?;
        call.continue_as_task().await;
        let caller = self.backend.caller(call);
        let _kept = self.backend.keep_instance(caller.as_ref());
        let id = json!({"taskId": task.task_id});
        let mut round = 0.0;
        loop {
            let text = task.status_message.as_deref().unwrap_or_default();
            round += 1.0;
            call.progress(round, None, text);
            match task.status.as_str() {
                "completed" => {
                    let result = task.result.and_then(|result| Members::read(result.get()));
                    return result.ok_or_else(|| {
                        let key = &self.backend.key;
                        let text = format!("The backend {key} ended the task without a result.");
                        ToolError::upstream(text)
                    });
                }
                "failed" => return Err(failed(&task.error.unwrap_or_default())),
                "cancelled" => {
                    let text = format!("The backend {} cancelled the task.", self.backend.key);
                    return Err(ToolError::new(ToolErrorKind::Cancelled, text));
                }
                "input_required" if !task.input_requests.is_empty() => {
                    self.answer(&task).await?;
                }
                _ => {}
            }
            let interval = task
                .poll_interval_ms
                .map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis);
            tokio::select! {
                () = tokio::time::sleep(interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)) => {}
                () = call.cancelled() => {
                    // Best effort: the client does not wait for the outcome.
                    let _ = self.ask_about("tasks/cancel", &id).await;
                    let text = format!("{} was cancelled.", self.item);
                    return Err(ToolError::new(ToolErrorKind::Cancelled, text));
                }
            }
            let state = self.ask_about("tasks/get", &id).await?;
            task = serde_json::from_str(state.get()).map_err(invalid_message)?;
        }
    }

    /// Asks the client the questions of the task, and sends the answers to the backend.
    async fn answer(&self, task: &BackendTask) -> Result<(), ToolError> {
        let requests = self.questions(&task.input_requests)?;
        let answers = self.answers_to(requests).await?;
        let params = json!({"taskId": task.task_id, "inputResponses": answers});
        self.ask_about("tasks/update", &params).await.map(drop)
    }

    async fn ask_about(&self, method: &str, params: &Value) -> Result<Box<RawValue>, ToolError> {
        let params = Members::read(&params.to_string()).unwrap_or_default();
        let tasks = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#.to_owned();
        let capabilities = RawValue::from_string(tasks).map_err(invalid_message)?;
        let options = Options::default()
            .timeout(REQUEST_TIMEOUT)
            .headers(self.backend.headers_of(self.client.call))
            .trace(self.backend.config.trace(&self.client.trace))
            .capabilities(capabilities.into());
        let caller = self.backend.caller(self.client.call);
        let caller = caller.as_ref();
        let backend = self.backend;
        let answer = backend.request(method, &params, options, true, caller);
        Ok(answer.await?)
    }
}

/// The error of a task that has failed.
fn failed(error: &Value) -> ToolError {
    let text = error["message"].as_str().unwrap_or("The task has failed.");
    let code = error["code"].as_i64().map(i32::try_from);
    ToolError::from_backend(ErrorObject {
        code: code.and_then(Result::ok).unwrap_or(INTERNAL_ERROR),
        message: text.to_owned(),
        data: error.get("data").cloned(),
    })
}

/// The member of `_meta` with the capabilities of a client of 2026-07-28.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The backend's timeout is shorter than the client's, so that the error can name the backend.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(250);

/// The request of a client.
pub(super) struct ClientRequest<'a> {
    pub(super) call: &'a Call,
    /// Its parameters, without those that belong to this connection only. Shared with what is sent.
    pub(super) params: Arc<Members>,
    /// The level that a client of an earlier era has set for all its requests.
    pub(super) log_level: Option<LogLevel>,
    /// Its span.
    pub(super) trace: TraceContext,
    /// The time that the client's call leaves for a backend.
    pub(super) timeout: Option<Duration>,
    /// The capabilities of its client, without extensions that only the gateway handles.
    pub(super) capabilities: Option<Arc<RawValue>>,
    /// The answers of its client to questions.
    pub(super) answers: Answers,
}

/// The answers that a client has given during one request, which the text of a failure may quote.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<OwnTexts>>);

impl Answers {
    pub(super) fn add(&self, answer: &Value) {
        self.0.lock().add(&answer.to_string());
    }

    /// Adds those of earlier rounds of the request.
    pub(super) fn continue_from(&self, earlier: &Self) {
        self.0.lock().add_all(&earlier.0.lock());
    }

    /// All texts of the client: also those in the parameters of its call.
    pub(super) fn with_params_of(&self, call: &Call) -> OwnTexts {
        let mut own = self.0.lock().clone();
        if let Some(origin) = call.extension::<OriginalRequest>() {
            own.add_params(&origin.params);
        }
        own
    }
}

impl<'a> ClientRequest<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        let origin = call.extension::<OriginalRequest>();
        let is_modern = origin.is_some_and(|origin| origin.era == Era::Modern);
        let params = origin.and_then(|origin| Members::read(&origin.params));
        let mut params = params.unwrap_or_default();
        let meta = params.get("_meta").filter(|_| is_modern);
        let declared = meta.and_then(|meta| member(meta, CAPABILITIES));
        let capabilities = capabilities(call, declared);
        if params.get("requestState").is_some() {
            // They answer questions that the gateway has sent; without a state they are for the backend.
            params.remove("inputResponses");
        }
        for ours in ["task", "requestState"] {
            params.remove(ours);
        }
        Self {
            call,
            params: Arc::new(params),
            // In the modern era it is in the parameters.
            log_level: call.client().log_level.filter(|_| !is_modern),
            trace: origin.map_or_else(
                || TraceContext::for_request(None),
                |origin| origin.trace.clone(),
            ),
            timeout: origin.map(|origin| origin.timeout.saturating_sub(TIMEOUT_MARGIN)),
            capabilities,
            answers: Answers::default(),
        }
    }
}

fn capabilities(call: &Call, declared: Option<&str>) -> Option<Arc<RawValue>> {
    if let Some(mut declared) = declared.and_then(Members::read) {
        let given = declared.get("extensions").and_then(Members::read);
        // The gateway makes its own task of the backend's task, and knows nothing of other extensions.
        let mut extensions = Members::default();
        if let Some(apps) = given.as_ref().and_then(|given| given.get(APPS)) {
            extensions.set(APPS, apps);
        }
        if call.supports_tasks() {
            extensions.set("io.modelcontextprotocol/tasks", "{}");
        }
        declared.remove("extensions");
        if !extensions.is_empty() {
            declared.set("extensions", &extensions.encode());
        }
        if let Some(mut experimental) = declared.get("experimental").and_then(Members::read) {
            // The gateway removes the text itself, so every client gets it that needs it.
            experimental.remove(ClientCapabilities::STRUCTURED_ONLY);
            declared.set("experimental", &experimental.encode());
        }
        return RawValue::from_string(declared.encode()).ok().map(Arc::from);
    }
    let can = call.capabilities().to_json();
    to_raw_value(&can).ok().map(Arc::from)
}

/// The event of one relayed request, which is recorded on drop, so that each request is recorded
/// exactly once.
pub(super) struct EventRecord {
    backend: Arc<Backend>,
    /// Its labels in `/metrics`, with the kind of its error.
    labels: OperationLabels,
    trace: TraceId,
    started: Instant,
    /// When it was sent to the backend, for its metrics.
    sent: Option<Instant>,
    answers: Answers,
    /// `None` if the call continues in the client's next request. A request that is dropped before
    /// its end was cancelled.
    event: Option<FinishedRequest>,
}

impl EventRecord {
    /// Begins the record of a request that `event` describes.
    pub(super) fn new(
        backend: &Arc<Backend>,
        labels: OperationLabels,
        client: &ClientRequest<'_>,
        event: FinishedRequest,
    ) -> Self {
        let origin = client.call.extension::<OriginalRequest>();
        if let Some(origin) = origin {
            origin.notes.take_over();
        }
        let principal = origin.and_then(|origin| origin.caller.info.principal.as_ref());
        let now = Instant::now();
        Self {
            backend: Arc::clone(backend),
            labels: OperationLabels {
                error: Some("cancelled"),
                ..labels
            },
            trace: trace_of(&client.trace),
            started: now,
            sent: Some(now),
            answers: client.answers.clone(),
            event: Some(FinishedRequest {
                principal: principal.map(|principal| Arc::clone(&principal.name)),
                view: origin.and_then(|origin| origin.caller.view.clone()),
                permission: origin.and_then(|origin| origin.notes.permission.get().cloned()),
                client: origin
                    .map(|origin| origin.client.clone())
                    .unwrap_or_default(),
                address: origin.and_then(|origin| origin.caller.address),
                backend: Some(backend.key.shared()),
                ..event
            }),
        }
    }

    /// Notes that the request is not sent yet: a refusal, or the wait for a person, is not the backend's.
    pub(super) fn not_sent(&mut self) {
        self.sent = None;
    }

    /// Notes that the request is denied: it is not sent.
    pub(super) fn denied(&mut self, by: DeniedBy) {
        if let Some(event) = &mut self.event {
            event.denied_by = Some(by);
        }
    }

    /// Notes that the request is sent now, and who has approved it.
    pub(super) fn sent(&mut self, approved_by: Option<&str>) {
        self.sent = Some(Instant::now());
        if let Some(event) = &mut self.event {
            event.approved_by = approved_by.map(Into::into);
        }
    }

    /// Notes the result of `call`.
    pub(super) fn finish(&mut self, result: &Result<Members, ToolError>, call: &Call) {
        if result.as_ref().is_err_and(ToolError::asks_client) {
            self.event = None;
        }
        let Some(event) = &mut self.event else { return };
        match result {
            Ok(result) => {
                let is_error = result.get("isError") == Some("true");
                self.labels.error = is_error.then_some(TOOL_ERROR);
                event.outcome = Outcome::Ok;
                if is_error {
                    event.outcome = Outcome::Failed;
                    let content = result.get("content").unwrap_or_default();
                    let own = self.answers.with_params_of(call);
                    event.fail_with_content(TOOL_ERROR, content, &own);
                }
                let size = |(name, json): (&str, &str)| name.len() + json.len() + 4;
                event.response_bytes = result.iter().map(size).sum();
            }
            Err(error) => {
                self.labels.error = Some(error.kind().as_str());
                event.outcome = match error.kind() {
                    _ if event.denied_by.is_some() => Outcome::Denied,
                    ToolErrorKind::Timeout => Outcome::TimedOut,
                    ToolErrorKind::Cancelled => Outcome::Cancelled,
                    _ => Outcome::Failed,
                };
                event.error_code = error.code().map(i64::from);
                event.response_bytes = error.message().len();
                let own = self.answers.with_params_of(call);
                event.fail(error.kind().as_str(), error.message(), &own);
            }
        }
    }
}

impl Drop for EventRecord {
    fn drop(&mut self) {
        let Some(mut event) = self.event.take() else {
            return;
        };
        let now = Instant::now();
        event.duration = now.duration_since(self.started);
        if let Some(sent) = self.sent {
            let took = now.duration_since(sent);
            let labels = self.labels.clone();
            self.backend.context.durations.record(labels, took);
            if event.method.is_none() {
                let is_ok = event.outcome == Outcome::Ok;
                self.backend.metrics.record(is_ok, took);
            }
        }
        let event = Event::finished(self.trace, event);
        self.backend.context.log.record(event);
    }
}
