//! Conversations: the tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::failure::Failure;
use super::http::AgentServer;
use crate::mcp_servers::Plugin;
use crate::notes::Notes;
use crate::order::Confirm;
use crate::task_id::TaskId;

/// Creating sets up the agent and its tools: the first one took 4 s on a busy machine.
const CREATE_TIMEOUT: Duration = Duration::from_secs(15);

/// What the agent server says about a conversation (`ConversationInfo`).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) execution_status: Execution,
    /// How many steps the agent may take in one run.
    pub(crate) max_iterations: Option<u32>,
    #[serde(default, rename = "tags")]
    pub(crate) notes: Notes,
    #[serde(default)]
    pub(crate) workspace: Workspace,
    #[serde(default)]
    pub(crate) stats: Stats,
    /// When something last happened in it: RFC 3339, UTC.
    #[serde(default)]
    pub(crate) updated_at: String,
    launched_agent_profile: Option<Launched>,
}

#[derive(Debug, Clone, Deserialize)]
struct Launched {
    agent_profile_id: String,
}

impl Conversation {
    /// Id of the agent profile that it was started with.
    pub(crate) fn profile(&self) -> Option<&str> {
        let launched = self.launched_agent_profile.as_ref()?;
        Some(&launched.agent_profile_id)
    }
}

/// A row of a list of conversations.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) id: TaskId,
    pub(crate) title: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) created_at: String,
    /// RFC 3339, UTC.
    #[serde(default)]
    pub(crate) updated_at: String,
    pub(crate) execution_status: Execution,
    #[serde(default, rename = "tags")]
    pub(crate) notes: Notes,
    #[serde(default)]
    pub(crate) stats: Stats,
}

/// Where a conversation works.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Workspace {
    /// Absolute, on the agent server's side.
    #[serde(default)]
    pub(crate) working_dir: String,
}

/// What a conversation has used.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Stats {
    #[serde(default)]
    usage_to_metrics: BTreeMap<String, Metrics>,
}

#[derive(Debug, Clone, Deserialize)]
struct Metrics {
    #[serde(default)]
    accumulated_cost: f64,
}

impl Stats {
    /// US dollars, of all models together.
    pub(crate) fn cost(&self) -> f64 {
        let metrics = self.usage_to_metrics.values();
        metrics.map(|metrics| metrics.accumulated_cost).sum()
    }
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

impl Execution {
    /// Nothing happens in it, and it may be told to run.
    pub(crate) fn is_still(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Paused | Self::Finished | Self::Error | Self::Stuck
        )
    }

    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingForConfirmation => "waiting_for_confirmation",
            Self::Finished => "finished",
            Self::Error => "error",
            Self::Stuck => "stuck",
            Self::Deleting => "deleting",
            Self::Unknown => "unknown",
        }
    }
}

/// What a conversation is started with.
#[derive(Clone, Copy)]
pub(crate) struct NewConversation<'a> {
    /// Chosen by us, which makes starting it twice harmless.
    pub(crate) id: TaskId,
    /// Id of an agent profile.
    pub(crate) agent_profile: &'a str,
    /// Absolute, on the agent server's side.
    pub(crate) working_dir: &'a str,
    pub(crate) notes: &'a Notes,
    pub(crate) max_iterations: u32,
    pub(crate) confirm: Option<Confirm>,
    /// What gives the agent more to call.
    pub(crate) plugin: Option<&'a Plugin>,
    /// With one, the agent begins by itself.
    pub(crate) prompt: Option<&'a str>,
}

/// Some conversations and where the next ones begin.
#[derive(Deserialize)]
pub(crate) struct Conversations {
    pub(crate) items: Vec<Listed>,
    pub(crate) next_page_id: Option<String>,
}

impl AgentServer {
    /// Makes a conversation; true where it is new. Where the id exists already, that conversation
    /// is returned and the prompt is not run again. A refusal leaves nothing behind.
    pub(crate) async fn create(
        &self,
        new: &NewConversation<'_>,
    ) -> Result<(Conversation, bool), Failure> {
        let mut body = json!({
            "conversation_id": new.id,
            "agent_profile_id": new.agent_profile,
            "workspace": {"working_dir": new.working_dir},
            // A title costs a call to the model and nobody sees it here.
            "autotitle": false,
            "tags": new.notes,
            "max_iterations": new.max_iterations,
        });
        if let Some(prompt) = new.prompt {
            body["initial_message"] = message(prompt);
        }
        if let Some(plugin) = new.plugin {
            body["plugins"] = json!([{"source": plugin.directory}]);
            body["secrets"] = json!(plugin.secrets);
        }
        match new.confirm {
            Some(Confirm::Always) => body["confirmation_policy"] = json!({"kind": "AlwaysConfirm"}),
            Some(Confirm::Risky) => {
                body["confirmation_policy"] = json!({"kind": "ConfirmRisky"});
                // The model's own word; without an analyzer every action counts as risky.
                body["security_analyzer"] = json!({"kind": "LLMSecurityAnalyzer"});
            }
            None => {}
        }
        let request = self.post(&["api", "conversations"], &[]);
        let request = request.within(CREATE_TIMEOUT);
        let request = request.body(|request| request.json(&body));
        let (status, conversation) = request.send_for_status().await?;
        Ok((conversation, status == StatusCode::CREATED))
    }

    /// The conversation as it is now.
    pub(crate) async fn conversation(&self, id: TaskId) -> Result<Conversation, Failure> {
        let answer = self
            .get(&["api", "conversations", &id.to_string()], &[])
            .send();
        answer.await.map_err(|failure| failure.about(id))
    }

    /// Conversations in `execution`, or all; newest first, at most 100.
    pub(crate) async fn conversations(
        &self,
        execution: Option<Execution>,
        limit: u32,
        page: Option<&str>,
    ) -> Result<Conversations, Failure> {
        let limit = limit.to_string();
        let mut query = vec![("limit", &*limit), ("sort_order", "CREATED_AT_DESC")];
        query.extend(execution.map(|execution| ("status", execution.as_str())));
        query.extend(page.map(|page| ("page_id", page)));
        self.get(&["api", "conversations", "search"], &query)
            .send()
            .await
    }

    /// Replaces what is noted at the conversation.
    pub(crate) async fn note(&self, id: TaskId, notes: &Notes) -> Result<(), Failure> {
        let request = self.patch(&["api", "conversations", &id.to_string()]);
        let request = request.body(|request| request.json(&json!({"tags": notes})));
        let answer = request.send::<IgnoredAny>().await;
        answer.map_err(|failure| failure.about(id)).map(drop)
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

    /// Has the conversation use the model of this profile, with the key that is kept with it.
    pub(crate) async fn use_model(&self, id: TaskId, llm_profile: &str) -> Result<(), Failure> {
        let path = ["api", "conversations", &id.to_string(), "switch_profile"];
        let body = json!({"profile_name": llm_profile});
        let request = self.post(&path, &[]);
        let request = request.body(|request| request.json(&body));
        request.send::<IgnoredAny>().await.map(drop)
    }

    /// A conversation `copy` that knows what this one knows and works in the same directory. Its
    /// agent has lost the key of its model.
    pub(crate) async fn fork(
        &self,
        id: TaskId,
        copy: TaskId,
        notes: &Notes,
    ) -> Result<(), Failure> {
        let path = ["api", "conversations", &id.to_string(), "fork"];
        let body = json!({"id": copy, "tags": notes});
        let request = self.post(&path, &[]).within(CREATE_TIMEOUT);
        let request = request.body(|request| request.json(&body));
        let answer = request.send::<IgnoredAny>().await;
        answer.map_err(|failure| failure.about(id)).map(drop)
    }

    /// Asks for the smallest thing that needs the key.
    ///
    /// # Errors
    /// Where something else answers, the failure says what it is.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        match self.answers().await {
            Err(failure) => Err(self.identify(failure).await),
            answers => answers,
        }
    }

    async fn answers(&self) -> Result<(), Failure> {
        let health = self.get(&["health"], &[]).send_open::<IgnoredAny>();
        health.await?;
        let count = self
            .get(&["api", "conversations", "count"], &[])
            .send::<u64>();
        count.await.map(drop)
    }
}

/// The user's words as a message.
pub(super) fn message(text: &str) -> serde_json::Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}
