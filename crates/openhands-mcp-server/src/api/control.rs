//! Starting, stopping and answering the agent of a conversation.

use std::time::Duration;

use serde_json::json;
use upstream::http::Method;

use super::agent_server::{AgentServer, Request};
use super::conversations::message;
use super::failure::Failure;
use super::task_id::TaskId;

/// The agent server waits up to 5 s for the interrupted step to let go.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses and messages are answered when the step under way has ended, which may be minutes. They
/// are made all the same when nobody waits for the answer.
const STEP_TIMEOUT: Duration = Duration::from_secs(4);
/// Deleting stops what still runs; after an interrupt that is nothing.
const DELETE_TIMEOUT: Duration = Duration::from_secs(15);

impl AgentServer {
    /// Puts the user's words into the conversation. With `run` the agent begins at once; where the
    /// agent server is full they are kept all the same.
    pub(crate) async fn prompt(&self, id: TaskId, text: &str, run: bool) -> Result<(), Failure> {
        let mut body = message(text);
        body["run"] = json!(run);
        let timeout = if run { STEP_TIMEOUT } else { INTERRUPT_TIMEOUT };
        let request = self.command(id, &["events"], timeout);
        request.json(&body).run().await
    }

    /// Lets the agent go on. On an agent that waits for a confirmation this is the confirmation.
    pub(crate) async fn run(&self, id: TaskId) -> Result<(), Failure> {
        self.command(id, &["run"], INTERRUPT_TIMEOUT).run().await
    }

    /// Stops the agent after the step under way.
    pub(crate) async fn pause(&self, id: TaskId) -> Result<(), Failure> {
        self.command(id, &["pause"], STEP_TIMEOUT).run().await
    }

    /// Stops the agent at once, together with the command that it runs.
    pub(crate) async fn interrupt(&self, id: TaskId) -> Result<(), Failure> {
        self.command(id, &["interrupt"], INTERRUPT_TIMEOUT)
            .run()
            .await
    }

    /// Allows or refuses the action for which the agent waits. A refused agent stops.
    pub(crate) async fn respond(
        &self,
        id: TaskId,
        accept: bool,
        reason: &str,
    ) -> Result<(), Failure> {
        let body = json!({"accept": accept, "reason": reason});
        let path = ["events", "respond_to_confirmation"];
        let request = self.command(id, &path, INTERRUPT_TIMEOUT);
        request.json(&body).run().await
    }

    /// Forgets the conversation. Its directory stays.
    pub(crate) async fn forget(&self, id: TaskId) -> Result<(), Failure> {
        let request = self.about_task(Method::DELETE, id, &[], &[]);
        request.within(DELETE_TIMEOUT).run().await
    }

    fn command(&self, id: TaskId, path: &[&str], timeout: Duration) -> Request {
        let request = self.about_task(Method::POST, id, path, &[]);
        request.within(timeout)
    }
}
