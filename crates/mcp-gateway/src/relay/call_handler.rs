//! Handles a backend's messages during a request: progress, log messages and questions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mcp_client::{Handler, Reply, RpcError};
use mcp_core::tool::{Call, InputRequest, LogLevel, ToolError};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

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
    /// Questions for clients of the modern era, whose call ends with the question.
    questions: Mutex<VecDeque<Question>>,
    question_added: Notify,
    /// Number of questions that wait for a person; the timeout does not run meanwhile.
    open_questions: AtomicUsize,
    /// Cancelled when the client has left the call. Few calls need it.
    ended: OnceLock<CancellationToken>,
    /// Handles the messages that belong to no call.
    fallback: Arc<dyn Handler>,
    /// Itself, for the futures of answers.
    this: Weak<Self>,
}

impl CallHandler {
    pub(super) fn new(call: Call, fallback: Arc<dyn Handler>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            call: Mutex::new(call),
            questions: Mutex::default(),
            question_added: Notify::new(),
            open_questions: AtomicUsize::new(0),
            ended: OnceLock::new(),
            fallback,
            this: Weak::clone(this),
        })
    }

    /// Waits for the next question that the backend has not withdrawn.
    pub(super) async fn question(&self) -> Question {
        loop {
            let next = self.questions.lock().pop_front();
            match next {
                Some(question) if question.answer.is_closed() => {}
                Some(question) => return question,
                None => self.question_added.notified().await,
            }
        }
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
        self.ended().cancel();
    }

    fn ended(&self) -> &CancellationToken {
        self.ended.get_or_init(CancellationToken::new)
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
        let Some(request) = InputRequest::from_backend(method, params) else {
            return self.fallback.request(method, None);
        };
        let call = self.call();
        if !call.waits_for_answers() {
            let (answer, answered) = oneshot::channel();
            self.questions
                .lock()
                .push_back(Question { request, answer });
            self.question_added.notify_one();
            let gone = |_| RpcError::new(-1, "The client has disconnected");
            return Box::pin(async move { raw(&answered.await.map_err(gone)?) });
        }
        // Kept from here on: the question may outlive the backend's answer.
        let this = self.this.upgrade();
        Box::pin(async move {
            let no_answer = || RpcError::new(-1, "The client has left or does not answer");
            let this = this.ok_or_else(no_answer)?;
            this.open_questions.fetch_add(1, Ordering::Relaxed);
            let answer = this.ended().run_until_cancelled(call.ask("0", request));
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
            this.open_questions.fetch_sub(1, Ordering::Relaxed);
            let answer = answer.ok().flatten().ok_or_else(no_answer)?;
            raw(&answer.map_err(refused)?)
        })
    }
}

/// The answer to the backend when the client cannot be asked or does not answer.
#[expect(clippy::needless_pass_by_value, reason = "a `map_err` function")]
fn refused(error: ToolError) -> RpcError {
    RpcError::new(mcp_core::jsonrpc::METHOD_NOT_FOUND, error.message())
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
