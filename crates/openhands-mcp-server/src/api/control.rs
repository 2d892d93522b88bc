//! Starting and stopping the agent of a conversation, and messages and answers to it.

use std::time::Duration;

use serde_json::json;
use upstream::http::Method;

use crate::api::agent_server::{AgentServer, Request};
use crate::api::conversations::message;
use crate::api::failure::ApiResult;
use crate::api::task_id::TaskId;

/// The agent server waits up to 5 s until the interrupted step ends.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// A run is answered before it begins.
const RUN_TIMEOUT: Duration = Duration::from_secs(5);
/// A message is answered at the end of the current step, which may take minutes. It takes effect even
/// if the client does not wait for the response.
const STEP_TIMEOUT: Duration = Duration::from_secs(4);
/// Deleting stops a running agent; after an interrupt nothing runs.
const DELETE_TIMEOUT: Duration = Duration::from_secs(15);

impl AgentServer {
    /// Adds a user message to the conversation. With `run` the agent starts at once; an agent server
    /// that is full keeps the message, too.
    pub(crate) async fn prompt(&self, id: TaskId, text: &str, run: bool) -> ApiResult<()> {
        let mut body = message(text);
        body["run"] = json!(run);
        let timeout = if run { STEP_TIMEOUT } else { INTERRUPT_TIMEOUT };
        let request = self.command(id, &["events"], timeout);
        request.json(&body).run().await
    }

    /// Runs the agent. It takes all actions without a result first: this is a confirmation of them.
    pub(crate) async fn run(&self, id: TaskId) -> ApiResult<()> {
        self.command(id, &["run"], RUN_TIMEOUT).run().await
    }

    /// Stops the agent and its current command at once.
    pub(crate) async fn interrupt(&self, id: TaskId) -> ApiResult<()> {
        let request = self.command(id, &["interrupt"], INTERRUPT_TIMEOUT);
        request.run().await
    }

    /// Allows or refuses all actions without a result, whatever they are at that moment. A refused agent stops.
    pub(crate) async fn respond(&self, id: TaskId, accept: bool, reason: &str) -> ApiResult<()> {
        let path = ["events", "respond_to_confirmation"];
        let request = self.command(id, &path, INTERRUPT_TIMEOUT);
        let body = json!({"accept": accept, "reason": reason});
        request.json(&body).run().await
    }

    /// Deletes the conversation. Its directory stays.
    pub(crate) async fn delete(&self, id: TaskId) -> ApiResult<()> {
        let request = self.task_request(Method::DELETE, id, &[]);
        request.timeout(DELETE_TIMEOUT).run().await
    }

    fn command(&self, id: TaskId, path: &[&str], timeout: Duration) -> Request {
        self.task_request(Method::POST, id, path).timeout(timeout)
    }
}
