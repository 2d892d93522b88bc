//! What a backend says while it works on a request: progress, log messages, and questions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_client::{Handler, Reply, RpcError};
use mcp_core::tool::{Call, InputRequest, LogLevel, ToolError};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

/// A question of the backend that the client has to be asked by the end of its call.
pub(super) struct Question {
    pub(super) request: InputRequest,
    pub(super) answer: oneshot::Sender<Value>,
}

/// Handles the messages of a backend that belong to one call: they go on to its client.
pub(super) struct CallHandler {
    /// The call as the client made it last: in the modern era it comes back with each answer.
    call: Mutex<Call>,
    /// What clients of the modern era are to be asked by the end of their call.
    questions: Mutex<VecDeque<Question>>,
    asked: Notify,
    /// Questions that are being answered: a person takes longer than a server.
    asking: Arc<AtomicUsize>,
    /// What belongs to no call.
    otherwise: Arc<dyn Handler>,
}

impl CallHandler {
    pub(super) fn new(call: Call, otherwise: Arc<dyn Handler>) -> Arc<Self> {
        Arc::new(Self {
            call: Mutex::new(call),
            questions: Mutex::default(),
            asked: Notify::new(),
            asking: Arc::default(),
            otherwise,
        })
    }

    /// The next question; waits for it.
    pub(super) async fn question(&self) -> Question {
        loop {
            let next = self.questions.lock().pop_front();
            match next {
                Some(question) => return question,
                None => self.asked.notified().await,
            }
        }
    }

    /// Goes on with the call by which the client has come back.
    pub(super) fn resume(&self, call: Call) {
        *self.call.lock() = call;
    }

    /// True while the client is being asked.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
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
            _ => self.otherwise.notification(method, params),
        }
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        let params = read(params).unwrap_or_else(|| json!({}));
        let Some(request) = InputRequest::from_backend(method, params) else {
            return self.otherwise.request(method, None);
        };
        let call = self.call();
        if !call.waits_for_answers() {
            let (answer, answered) = oneshot::channel();
            self.questions
                .lock()
                .push_back(Question { request, answer });
            self.asked.notify_one();
            let gone = |_| RpcError::new(-1, "The client is gone");
            return Box::pin(async move { raw(&answered.await.map_err(gone)?) });
        }
        let asking = Arc::clone(&self.asking);
        Box::pin(async move {
            asking.fetch_add(1, Ordering::Relaxed);
            let answer = call.ask("0", request).await;
            asking.fetch_sub(1, Ordering::Relaxed);
            raw(&answer.map_err(refused)?)
        })
    }
}

/// What the backend is told when the client cannot be asked, or does not answer.
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
