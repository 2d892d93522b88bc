//! Conversations: the tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::failure::Failure;
use super::http::AgentServer;
use crate::task_id::TaskId;

/// Creating sets up the agent and its tools: the first one took 4 s on a busy machine.
const CREATE_TIMEOUT: Duration = Duration::from_secs(15);
/// The agent server waits up to 5 s for the interrupted step to let go.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// What the agent server says about a conversation (`ConversationInfo`).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) execution_status: Execution,
    /// How many steps the agent may take.
    pub(crate) max_iterations: Option<u32>,
    #[serde(default)]
    pub(crate) tags: BTreeMap<String, String>,
}

/// `ConversationExecutionStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Execution {
    Idle,
    Running,
    Paused,
    WaitingForConfirmation,
    Finished,
    Error,
    Stuck,
    Deleting,
    /// One of a later version.
    #[serde(other)]
    Unknown,
}

/// What a conversation is started with.
pub(crate) struct NewConversation<'a> {
    /// Chosen by us, which makes starting it twice harmless.
    pub(crate) id: TaskId,
    /// Id of an agent profile.
    pub(crate) agent_profile: &'a str,
    /// Absolute, on the agent server's side.
    pub(crate) working_dir: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) tags: &'a BTreeMap<&'a str, String>,
}

impl AgentServer {
    /// Starts a conversation; the agent begins by itself. Where the id exists already, that
    /// conversation is returned and the prompt is not run again. A refusal leaves nothing behind.
    pub(crate) async fn start(&self, new: &NewConversation<'_>) -> Result<Conversation, Failure> {
        let body = json!({
            "conversation_id": new.id,
            "agent_profile_id": new.agent_profile,
            "workspace": {"working_dir": new.working_dir},
            // A title costs a call to the model and nobody sees it here.
            "autotitle": false,
            "tags": new.tags,
            "initial_message": {
                "role": "user",
                "content": [{"type": "text", "text": new.prompt}],
            },
        });
        let request = self.post(&["api", "conversations"], &[]);
        let request = request.within(CREATE_TIMEOUT);
        request.body(|request| request.json(&body)).send().await
    }

    /// The conversation as it is now.
    pub(crate) async fn conversation(&self, id: TaskId) -> Result<Conversation, Failure> {
        let answer = self
            .get(&["api", "conversations", &id.to_string()], &[])
            .send();
        answer.await.map_err(|failure| failure.about(id))
    }

    /// The agent's last word, or nothing where it has not said any.
    pub(crate) async fn final_response(&self, id: TaskId) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            response: String,
        }
        let path = [
            "api",
            "conversations",
            &id.to_string(),
            "agent_final_response",
        ];
        let answer = self.get(&path, &[]).send::<Answer>().await;
        let answer = answer.map_err(|failure| failure.about(id))?;
        Ok(answer.response)
    }

    /// Stops the agent at once, together with the command that it runs.
    pub(crate) async fn interrupt(&self, id: TaskId) -> Result<(), Failure> {
        let path = ["api", "conversations", &id.to_string(), "interrupt"];
        let request = self.post(&path, &[]).within(INTERRUPT_TIMEOUT);
        let answer = request.send::<IgnoredAny>().await;
        answer.map_err(|failure| failure.about(id)).map(drop)
    }

    /// Refuses the action for which the agent waits; it then stops.
    pub(crate) async fn refuse(&self, id: TaskId) -> Result<(), Failure> {
        let path = [
            "api",
            "conversations",
            &id.to_string(),
            "events",
            "respond_to_confirmation",
        ];
        let body = json!({"accept": false, "reason": "The task was cancelled."});
        let request = self.post(&path, &[]).within(INTERRUPT_TIMEOUT);
        let answer = request.body(|request| request.json(&body));
        let answer = answer.send::<IgnoredAny>().await;
        answer.map_err(|failure| failure.about(id)).map(drop)
    }

    /// Asks for the smallest thing that needs the key.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        let health = self.get(&["health"], &[]).send_open::<IgnoredAny>();
        health.await?;
        let count = self
            .get(&["api", "conversations", "count"], &[])
            .send::<u64>();
        count.await.map(drop)
    }
}
