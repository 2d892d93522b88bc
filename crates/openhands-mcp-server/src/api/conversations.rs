//! Conversations: the tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use upstream::http::{Method, StatusCode};

use super::agent_server::AgentServer;
use super::failure::Failure;
use super::task_id::TaskId;

/// The tags of a conversation, by name.
pub(crate) type Tags = BTreeMap<String, String>;

/// Creating sets up the agent and its tools: the first one took 4 s on a busy machine.
const CREATE_TIMEOUT: Duration = Duration::from_secs(15);

/// What the agent server says about a conversation (`ConversationInfo`).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) execution_status: Execution,
    /// How many steps the agent may take in one run.
    pub(crate) max_iterations: Option<u32>,
    #[serde(default)]
    pub(crate) tags: Tags,
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
pub(crate) struct ListedConversation {
    pub(crate) id: TaskId,
    pub(crate) title: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) created_at: String,
    /// RFC 3339, UTC.
    #[serde(default)]
    pub(crate) updated_at: String,
    pub(crate) execution_status: Execution,
    #[serde(default)]
    pub(crate) tags: Tags,
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
    pub(crate) tags: &'a Tags,
    pub(crate) max_iterations: u32,
    pub(crate) confirmation: Option<ConfirmationPolicy>,
    /// What gives the agent more to call.
    pub(crate) plugin: Option<&'a Plugin>,
    /// With one, the agent begins by itself.
    pub(crate) prompt: Option<&'a str>,
}

/// The actions for which the agent waits for a confirmation.
#[derive(Clone, Copy)]
pub(crate) enum ConfirmationPolicy {
    AlwaysConfirm,
    ConfirmRisky,
}

/// A plugin of a conversation. Holds secrets, so it has no `Debug`.
pub(crate) struct Plugin {
    /// Absolute, on the agent server's side.
    pub(crate) directory: String,
    /// Secrets of the conversation, by the name under which the plugin asks for them.
    pub(crate) secrets: Map<String, Value>,
}

/// Some conversations and where the next ones begin.
#[derive(Deserialize)]
pub(crate) struct Conversations {
    pub(crate) items: Vec<ListedConversation>,
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
            "tags": new.tags,
            "max_iterations": new.max_iterations,
        });
        if let Some(prompt) = new.prompt {
            body["initial_message"] = message(prompt);
        }
        if let Some(plugin) = new.plugin {
            body["plugins"] = json!([{"source": plugin.directory}]);
            body["secrets"] = json!(plugin.secrets);
        }
        match new.confirmation {
            Some(ConfirmationPolicy::AlwaysConfirm) => {
                body["confirmation_policy"] = json!({"kind": "AlwaysConfirm"});
            }
            Some(ConfirmationPolicy::ConfirmRisky) => {
                body["confirmation_policy"] = json!({"kind": "ConfirmRisky"});
                // The model's own word; without an analyzer every action counts as risky.
                body["security_analyzer"] = json!({"kind": "LLMSecurityAnalyzer"});
            }
            None => {}
        }
        let request = self.post(&["api", "conversations"], &[]);
        let request = request.within(CREATE_TIMEOUT).json(&body);
        let (status, conversation) = request.send_for_status().await?;
        Ok((conversation, status == StatusCode::CREATED))
    }

    /// The conversation as it is now.
    pub(crate) async fn conversation(&self, id: TaskId) -> Result<Conversation, Failure> {
        self.about_task(Method::GET, id, &[], &[]).send().await
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

    /// Replaces the tags of the conversation. Waits while a step is under way.
    pub(crate) async fn set_tags(&self, id: TaskId, tags: &Tags) -> Result<(), Failure> {
        let request = self.about_task(Method::PATCH, id, &[], &[]);
        request.json(&json!({"tags": tags})).run().await
    }

    /// The agent's last word, or nothing where it has not said any.
    pub(crate) async fn final_response(&self, id: TaskId) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct FinalResponse {
            response: String,
        }
        let request = self.about_task(Method::GET, id, &["agent_final_response"], &[]);
        Ok(request.send::<FinalResponse>().await?.response)
    }

    /// Has the conversation use the model of this profile, with the key that is kept with it.
    pub(crate) async fn use_model(&self, id: TaskId, llm_profile: &str) -> Result<(), Failure> {
        let path = ["api", "conversations", &id.to_string(), "switch_profile"];
        let request = self.post(&path, &[]);
        request
            .json(&json!({"profile_name": llm_profile}))
            .run()
            .await
    }

    /// A conversation `copy` that knows what this one knows and works in the same directory. Its
    /// agent has lost the key of its model.
    pub(crate) async fn fork(&self, id: TaskId, copy: TaskId, tags: &Tags) -> Result<(), Failure> {
        let request = self.about_task(Method::POST, id, &["fork"], &[]);
        let request = request.json(&json!({"id": copy, "tags": tags}));
        request.within(CREATE_TIMEOUT).run().await
    }
}

/// The user's words as a message.
pub(super) fn message(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}
