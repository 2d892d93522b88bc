//! Backends that answer with a task (2026-07-28, the extension `io.modelcontextprotocol/tasks`): the
//! client gets a task of the gateway, which polls the backend's task until it ends.

use std::time::Duration;

use mcp_client::Options;
use mcp_core::jsonrpc::{ErrorObject, INTERNAL_ERROR, Members};
use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::request::{RelayedRequest, invalid_message, questions};
use crate::backend::Caller;

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
        let task: BackendTask = serde_json::from_str(&created.encode()).map_err(invalid_message)?;
        call.continue_as_task().await;
        self.poll(task).await
    }

    async fn poll(&self, mut task: BackendTask) -> Result<Members, ToolError> {
        let call = self.client.call;
        let caller = Caller::new(call, self.backend.config.isolation);
        let _kept = self.backend.keep_instance(caller.as_ref());
        let id = json!({"taskId": task.task_id});
        let mut round = 0.0;
        loop {
            let text = task.status_message.as_deref().unwrap_or_default();
            round += 1.0;
            call.progress(round, None, text);
            match task.status.as_str() {
                "completed" => return self.result(task.result),
                "failed" => return Err(self.failed(task.error.unwrap_or_default())),
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

    fn result(&self, result: Option<Box<RawValue>>) -> Result<Members, ToolError> {
        result
            .and_then(|result| Members::read(result.get()))
            .ok_or_else(|| {
                let key = &self.backend.key;
                ToolError::upstream(format!(
                    "The backend {key} ended the task without a result."
                ))
            })
    }

    fn failed(&self, error: Value) -> ToolError {
        let text = error["message"].as_str().unwrap_or("The task has failed.");
        let code = error["code"]
            .as_i64()
            .and_then(|code| i32::try_from(code).ok());
        ToolError::from_backend(ErrorObject {
            code: code.unwrap_or(INTERNAL_ERROR),
            message: text.to_owned(),
            data: error.get("data").cloned(),
        })
    }

    /// Asks the client the questions of the task, and sends the answers to the backend.
    async fn answer(&self, task: &BackendTask) -> Result<(), ToolError> {
        let requests = questions(&task.input_requests, self.backend.key.as_str())?;
        let keys: Vec<String> = requests.iter().map(|(key, _)| (*key).to_owned()).collect();
        let answers = self.client.call.ask_all(requests).await?;
        let answers: Map<String, Value> = keys.into_iter().zip(answers).collect();
        let params = json!({"taskId": task.task_id, "inputResponses": answers});
        self.ask_about("tasks/update", &params).await.map(drop)
    }

    async fn ask_about(&self, method: &str, params: &Value) -> Result<Box<RawValue>, ToolError> {
        let params = Members::read(&params.to_string()).unwrap_or_default();
        let tasks = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#.to_owned();
        let capabilities = RawValue::from_string(tasks).map_err(invalid_message)?;
        let options = Options::default()
            .timeout(REQUEST_TIMEOUT)
            .trace(self.backend.config.trace(&self.client.trace))
            .capabilities(capabilities.into());
        let caller = Caller::new(self.client.call, self.backend.config.isolation);
        let caller = caller.as_ref();
        let answer = self
            .backend
            .request(method, &params, options, true, caller)
            .await;
        answer.map_err(|failure| failure.into_tool_error(self.backend.key.as_str()))
    }
}
