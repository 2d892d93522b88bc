//! Questions of a backend to the client of a call. The client is always told which backend asks, and a backend can ask so
//! often only: the user of a client cannot see how many servers are behind the gateway.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use gateway_access::{CallCounts, Rate};
use mcp_client::{Endpoint, Handler, Reply, RpcError};
use mcp_core::server::{OriginalRequest, PreviousRounds};
use mcp_core::tool::{Call, InputRequest, LogLevel, ToolError};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use upstream::text::clean;
use uuid::Uuid;

use super::Relay;
use super::request::Answers;
use crate::backend::{Backend, RequestError};

/// Questions of a backend within one call.
const MAX_QUESTIONS_OF_CALL: usize = 20;

/// Questions of a backend to one caller within a minute, and to all callers together that have neither a token nor a
/// session.
const MAX_QUESTIONS_A_MINUTE: u32 = 60;
const MAX_QUESTIONS_TO_UNKNOWN: u32 = 600;

/// The error of 2025-11-25 that says which addresses a user has to open first.
const ADDRESSES_REQUIRED: i64 = -32042;

/// The backend of one call, as its questions see it.
#[derive(Clone, Default)]
pub(super) struct Asker {
    backend: Arc<str>,
    /// The client that is asked.
    caller: Arc<str>,
    /// Why it may ask nothing.
    refusal: Option<&'static str>,
    /// The number of its questions within the call.
    asked: Arc<AtomicUsize>,
    counts: Arc<CallCounts>,
}

impl Asker {
    pub(super) fn new(relay: &Relay, backend: &Backend, call: &Call) -> Self {
        let origin = call.extension::<OriginalRequest>();
        let principal = origin.and_then(|origin| origin.caller.info.principal.as_deref());
        let refusal = match backend.config.questions {
            false => Some("`questions = false` is set for this backend"),
            true if !relay.approvals.may_be_asked(principal) => {
                Some("`questions = false` is set for the role of this client")
            }
            true => None,
        };
        let rounds = call.extension::<PreviousRounds>();
        let asked = rounds.and_then(|rounds| rounds.memo["asked"].as_u64());
        let asked = usize::try_from(asked.unwrap_or_default()).unwrap_or(usize::MAX);
        Self {
            backend: backend.key.shared(),
            caller: call.client().name.clone().unwrap_or_default(),
            refusal,
            asked: Arc::new(asked.into()),
            counts: Arc::clone(&relay.questions),
        }
    }

    /// The number of its questions within the call, for the state between two rounds.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the question for the client; `None` if `method` is none.
    ///
    /// # Errors
    /// Why the client is not asked.
    pub(super) fn question(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Option<InputRequest>, String> {
        // Nothing else can have the name of the backend.
        let params = match params.is_object() {
            true => params,
            false => json!({}),
        };
        let params = match method {
            "elicitation/create" => self.named(params)?,
            "sampling/createMessage" => self.sampling(params),
            _ => params,
        };
        let Some(request) = InputRequest::from_backend(method, params) else {
            return Ok(None);
        };
        if let Some(refusal) = self.refusal {
            return Err(refusal.to_owned());
        }
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS_OF_CALL {
            return Err(format!(
                "a backend may ask {MAX_QUESTIONS_OF_CALL} times within one call"
            ));
        }
        // Its name is empty if it has none.
        let most = match self.caller.is_empty() {
            true => MAX_QUESTIONS_TO_UNKNOWN,
            false => MAX_QUESTIONS_A_MINUTE,
        };
        let (rate, now) = (Rate::a_minute(most), std::time::Instant::now());
        let counted = self
            .counts
            .take(&self.backend, Some(&self.caller), rate, now);
        counted.map_err(|_| format!("a backend may ask a client {most} times within a minute"))?;
        Ok(Some(request))
    }

    /// Names the backend in front of the text for the user.
    fn named(&self, mut params: Value) -> Result<Value, String> {
        let text = clean(params["message"].as_str().unwrap_or_default());
        params["message"] = json!(format!("Backend {} asks: {text}", self.backend));
        if let Some(schema) = params.get_mut("requestedSchema") {
            clean_texts(schema);
        }
        let address = params.get("url").and_then(Value::as_str);
        match address.is_none_or(|address| Endpoint::new(address).is_ok()) {
            true => Ok(params),
            false => Err(
                "an address to open must start with http:// or https://, without a user name or password"
                    .to_owned(),
            ),
        }
    }

    /// Names the backend in front of the prompt. The context of "this server" would be that of all backends.
    fn sampling(&self, mut params: Value) -> Value {
        let prompt = params["systemPrompt"].as_str().unwrap_or_default();
        params["systemPrompt"] = json!(format!("Backend {} asks: {prompt}", self.backend));
        if params.get("includeContext").is_some() {
            params["includeContext"] = json!("none");
        }
        params
    }

    /// Names the backend in an error that asks the user to open addresses.
    pub(super) fn error(&self, mut error: RpcError) -> RpcError {
        let data = error
            .data
            .as_ref()
            .filter(|_| error.code == ADDRESSES_REQUIRED);
        let Some(data) = data else { return error };
        let mut data: Value = serde_json::from_str(data.get()).unwrap_or_default();
        let Some(asked) = data["elicitations"].as_array() else {
            return error;
        };
        let named = asked.iter().map(|asked| match self.refusal {
            Some(refusal) => Err(refusal.to_owned()),
            None if asked.is_object() => self.named(asked.clone()),
            None => Err("it says so in a way that cannot be read".to_owned()),
        });
        match named.collect::<Result<Vec<Value>, String>>() {
            Ok(named) => {
                data["elicitations"] = json!(named);
                error.data = to_raw_value(&data).ok();
                error
            }
            Err(reason) => {
                let key = &self.backend;
                let text = format!("The backend {key} asks to open an address: {reason}.");
                RpcError::new(mcp_core::jsonrpc::INVALID_REQUEST, text)
            }
        }
    }
}

/// The time that a person has for an answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// A question of the backend that becomes the result of the client's call.
pub(super) struct Question {
    pub(super) request: InputRequest,
    pub(super) answer: oneshot::Sender<Value>,
}

/// Forwards the messages of a backend that belong to one call to the client of that call.
pub(super) struct CallHandler {
    /// The client's latest call: in the modern era each answer comes with a new call.
    call: Mutex<Call>,
    /// The answers to questions that were asked within that call.
    pub(super) answers: Answers,
    /// Takes questions for clients of the modern era, whose call ends with the question. Boxed, since a channel has room for
    /// 32 from its start.
    questions: UnboundedSender<Box<Question>>,
    /// Number of questions that wait for a person; the timeout does not run meanwhile.
    open_questions: AtomicUsize,
    /// Cancelled when the client has left the call.
    ended: CancellationToken,
    /// The backend as its questions see it.
    asker: Asker,
    /// Handles the messages that belong to no call.
    fallback: Arc<dyn Handler>,
    /// Itself, for the futures of answers.
    this: Weak<Self>,
}

impl CallHandler {
    /// Returns the handler, and the questions that it takes.
    pub(super) fn new(
        call: Call,
        answers: Answers,
        asker: Asker,
        fallback: Arc<dyn Handler>,
    ) -> (Arc<Self>, UnboundedReceiver<Box<Question>>) {
        let (questions, taken) = mpsc::unbounded_channel();
        let handler = Arc::new_cyclic(|this| Self {
            call: Mutex::new(call),
            answers,
            questions,
            open_questions: AtomicUsize::new(0),
            ended: CancellationToken::new(),
            asker,
            fallback,
            this: Weak::clone(this),
        });
        (handler, taken)
    }

    /// Continues with the call that has brought the answer.
    pub(super) fn resume(&self, call: Call) {
        *self.call.lock() = call;
    }

    /// Returns true while a question waits for its answer.
    pub(super) fn is_asking(&self) -> bool {
        self.open_questions.load(Ordering::Relaxed) > 0
    }

    /// Withdraws the open questions: the client has left the call.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    fn call(&self) -> Call {
        self.call.lock().clone()
    }
}

impl Handler for CallHandler {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/progress" => {
                if let Some(report) = read::<Progress>(params) {
                    let message = report.message.unwrap_or_default();
                    self.call()
                        .progress(report.progress, report.total, &message);
                }
            }
            "notifications/message" => {
                if let Some(message) = read::<Message>(params) {
                    let logger = message.logger.unwrap_or_default();
                    self.call().log(message.level, &logger, &message.data);
                }
            }
            _ => self.fallback.notification(method, params),
        }
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        let params = read(params).unwrap_or_else(|| json!({}));
        let request = match self.asker.question(method, params) {
            Ok(Some(request)) => request,
            Ok(None) => return self.fallback.request(method, None),
            Err(reason) => {
                let text = format!("The client is not asked: {reason}");
                let refused = RpcError::new(mcp_core::jsonrpc::INVALID_REQUEST, text);
                return Box::pin(std::future::ready(Err(refused)));
            }
        };
        let call = self.call();
        if !call.waits_for_answers() {
            let (answer, answered) = oneshot::channel();
            // Without a receiver the call is over, and nobody answers.
            let question = Question { request, answer };
            let _ = self.questions.send(Box::new(question));
            let gone = |_| RpcError::new(-1, "The client has disconnected");
            return Box::pin(async move { raw(&answered.await.map_err(gone)?) });
        }
        // Kept from here on: the question may outlive the backend's answer.
        let this = self.this.upgrade();
        Box::pin(async move {
            let no_answer = || RpcError::new(-1, "The client has left or does not answer");
            let this = this.ok_or_else(no_answer)?;
            this.open_questions.fetch_add(1, Ordering::Relaxed);
            let answer = this.ended.run_until_cancelled(call.ask("0", request));
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
            this.open_questions.fetch_sub(1, Ordering::Relaxed);
            let answer = answer.ok().flatten().ok_or_else(no_answer)?;
            // The client cannot be asked, or has given no valid answer.
            let answer = answer.map_err(|error| {
                RpcError::new(mcp_core::jsonrpc::METHOD_NOT_FOUND, error.message())
            })?;
            this.answers.add(&answer);
            raw(&answer)
        })
    }
}

/// Removes hidden characters from the texts for the user in the schema of an answer; its values stay.
fn clean_texts(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("title" | "description", Value::String(text)) => *text = clean(text).into(),
                    ("enumNames", Value::Array(names)) => {
                        for name in names {
                            if let Value::String(text) = name {
                                *text = clean(text).into();
                            }
                        }
                    }
                    (_, value) => clean_texts(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(clean_texts),
        _ => {}
    }
}

fn raw(answer: &Value) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(answer)
        .map_err(|_| RpcError::new(mcp_core::jsonrpc::INTERNAL_ERROR, "Internal error"))
}

fn read<T: for<'de> Deserialize<'de>>(params: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(params?.get()).ok()
}

#[derive(Deserialize)]
struct Progress {
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    level: LogLevel,
    logger: Option<String>,
    #[serde(default)]
    data: Value,
}

/// Limit for all clients together, against attacks.
const MAX_SUSPENDED_REQUESTS: usize = 1_000;

/// The future of a request to a backend.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RequestError>> + Send>>;

/// A request that was sent, and the handler of the backend's messages meanwhile.
pub(super) struct SentRequest {
    pub(super) pending: Pending,
    pub(super) handler: Arc<CallHandler>,
    /// The questions that end the client's call.
    pub(super) questions: UnboundedReceiver<Box<Question>>,
    /// True once the backend has answered. The client may still answer a question that came on this call.
    pub(super) is_answered: bool,
}

impl SentRequest {
    pub(super) fn new(
        pending: Pending,
        handler: Arc<CallHandler>,
        questions: UnboundedReceiver<Box<Question>>,
    ) -> Self {
        Self {
            pending,
            handler,
            questions,
            is_answered: false,
        }
    }

    /// Reads the response also before the client is back: a backend may end the call without an answer to its
    /// question, and the call is over then.
    fn run_in_background(&mut self) {
        let over = ToolError::unavailable("The call has ended.");
        let over = Box::pin(std::future::ready(Err(over.into())));
        let pending = std::mem::replace(&mut self.pending, over);
        let running = AbortOnDropHandle::new(tokio::spawn(pending));
        self.pending = Box::pin(async move {
            running.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a request to a backend has failed");
                Err(ToolError::unavailable("The call has failed.").into())
            })
        });
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.handler.end();
        }
    }
}

/// A request whose backend waits for the answer to its question (2024-11-05 to 2025-11-25).
pub(super) struct SuspendedRequest {
    pub(super) request: SentRequest,
    pub(super) answer: oneshot::Sender<Value>,
    owner: Owner,
    _expiry: AbortOnDropHandle<()>,
}

/// The caller and the item of a call. Only the same caller and item can continue a suspended request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) caller: Option<Arc<str>>,
    pub(super) backend: Arc<str>,
    pub(super) method: String,
    pub(super) item: String,
}

/// The suspended requests, by name.
#[derive(Default)]
pub(crate) struct SuspendedRequests(Mutex<HashMap<String, SuspendedRequest>>);

impl SuspendedRequests {
    /// Suspends a request and gives it a name. `None` if too many are suspended. Without an answer it is
    /// cancelled in time, or once it is in the way: other callers of its backend cannot be asked meanwhile.
    pub(super) fn add(
        self: &Arc<Self>,
        mut request: SentRequest,
        answer: oneshot::Sender<Value>,
        owner: Owner,
        in_the_way: impl Future<Output = ()> + Send + 'static,
    ) -> Option<String> {
        request.run_in_background();
        let name = Uuid::new_v4().simple().to_string();
        let (all, expired) = (Arc::downgrade(self), name.clone());
        let expiry = tokio::spawn(async move {
            let _ = tokio::time::timeout(ANSWER_TIMEOUT, in_the_way).await;
            let suspended = all.upgrade().and_then(|all| all.0.lock().remove(&expired));
            drop(suspended);
        });
        let suspended = SuspendedRequest {
            request,
            answer,
            owner,
            _expiry: AbortOnDropHandle::new(expiry),
        };
        let mut all = self.0.lock();
        if all.len() >= MAX_SUSPENDED_REQUESTS {
            return None;
        }
        all.insert(name.clone(), suspended);
        Some(name)
    }

    /// Removes and returns the request with this name, if it belongs to this owner.
    pub(super) fn take(&self, name: &str, owner: &Owner) -> Option<SuspendedRequest> {
        let mut all = self.0.lock();
        all.get(name).filter(|found| found.owner == *owner)?;
        all.remove(name)
    }
}

#[cfg(test)]
mod tests {
    use mcp_client::RpcError;
    use mcp_core::tool::Call;

    use super::super::questions::Asker;
    use super::*;
    use crate::relay::request::Answers;

    #[test]
    fn schema_of_an_answer_has_no_hidden_characters_in_its_texts() {
        let text = "a\u{202e}b";
        let schema = |text: &str, value: &str| {
            json!({"type": "object", "properties": {"title": {
                "type": "string", "title": text, "description": text,
                "enum": [value], "enumNames": [text], "oneOf": [{"const": value, "title": text}]}}})
        };
        let mut cleaned = schema(text, text);
        clean_texts(&mut cleaned);
        assert_eq!(cleaned, schema(&clean(text), text));
        assert_ne!(clean(text), text);
    }

    /// The minute counts over all calls of a client; each call has a number of its own.
    #[test]
    fn backend_may_ask_a_client_so_often_within_a_minute() {
        let counts = Arc::<CallCounts>::default();
        let ask = |caller: &str| {
            let (backend, caller, counts) = ("b".into(), caller.into(), Arc::clone(&counts));
            let asker = Asker {
                backend,
                caller,
                counts,
                ..Asker::default()
            };
            let question = json!({"message": "Who?", "requestedSchema": {"type": "object"}});
            asker.question("elicitation/create", question)
        };
        for (caller, most) in [
            ("ada", MAX_QUESTIONS_A_MINUTE),
            ("bob", MAX_QUESTIONS_A_MINUTE),
            ("", MAX_QUESTIONS_TO_UNKNOWN),
        ] {
            for _ in 0..most {
                assert!(ask(caller).unwrap().is_some(), "{caller}");
            }
            let refused = ask(caller).err().unwrap();
            assert_eq!(
                refused,
                format!("a backend may ask a client {most} times within a minute")
            );
        }
    }

    #[test]
    fn error_that_asks_to_open_addresses_is_named_and_checked() {
        let asker = |refusal| Asker {
            backend: "b".into(),
            refusal,
            ..Asker::default()
        };
        let error = |url: &str| {
            let asked = json!({"mode": "url", "url": url, "message": "Log in"});
            let data = to_raw_value(&json!({"elicitations": [asked]})).unwrap();
            RpcError {
                code: ADDRESSES_REQUIRED,
                message: "first".to_owned(),
                data: Some(data),
            }
        };
        let switched_off = Some("`questions = false` is set for this backend");
        for (url, refusal, code, expected) in [
            (
                "https://a.example/",
                None,
                ADDRESSES_REQUIRED,
                "Backend b asks: Log in",
            ),
            (
                "javascript:alert(1)",
                None,
                -32600,
                "must start with http://",
            ),
            (
                "https://bank@evil.example/",
                None,
                -32600,
                "without a user name",
            ),
            (
                "https://a.example/",
                switched_off,
                -32600,
                "`questions = false`",
            ),
        ] {
            let told = asker(refusal).error(error(url));
            let text = format!("{} {:?}", told.message, told.data);
            assert_eq!(told.code, code, "{url}: {text}");
            assert!(text.contains(expected), "{url}: {text}");
        }
    }

    struct NoHandler;

    impl mcp_client::Handler for NoHandler {}

    /// Otherwise it would count as in progress for ten minutes, and stop the questions of others.
    #[tokio::test]
    async fn response_to_a_suspended_request_is_read_and_kept() {
        let (sender, response) = oneshot::channel::<()>();
        let (read, is_read) = oneshot::channel();
        let (answers, asker) = (Answers::default(), Asker::default());
        let (handler, questions) =
            CallHandler::new(Call::default(), answers, asker, Arc::new(NoHandler));
        let pending = Box::pin(async move {
            response.await.unwrap();
            read.send(()).unwrap();
            Err(RequestError::Rpc(RpcError::new(-32000, "given up")))
        });
        let request = SentRequest::new(pending, handler, questions);
        let owner = Owner {
            caller: None,
            backend: "b".into(),
            method: "tools/call".to_owned(),
            item: "b__work".to_owned(),
        };
        let (answer, _question) = oneshot::channel();
        let all = Arc::new(SuspendedRequests::default());
        let waits = std::future::pending();
        let name = all.add(request, answer, owner.clone(), waits).unwrap();
        sender.send(()).unwrap();
        is_read.await.unwrap();
        let mut taken = all.take(&name, &owner).unwrap();
        let result = (&mut taken.request.pending).await;
        assert!(matches!(result, Err(RequestError::Rpc(error)) if error.message == "given up"));
    }
}
