//! Conversations of the agent server. Every task is one.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use upstream::http::{Method, Request};
use upstream::time::{Timestamp, parse_timestamp};

use crate::api::agent_server::{AgentServer, Page};
use crate::api::failure::{ApiResult, NO_MODEL};
use crate::api::names::TaskId;
use crate::api::tags::ConversationTags;

/// Creating a conversation sets up the agent and its tools: the first one took 4 s on a busy machine.
const CREATE_TIMEOUT: Duration = Duration::from_secs(15);

/// Ids in one request.
const MAX_IDS: usize = 99;
/// The largest page.
const PAGE_SIZE: u32 = 100;

/// Parts of a US dollar to which costs are rounded.
const COST_UNITS: f64 = 1e6;

/// A conversation (`ConversationInfo`).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: TaskId,
    /// The state of its agent.
    pub(crate) execution_status: Execution,
    /// The title that OpenHands gave it.
    pub(crate) title: Option<String>,
    /// The limit of steps in one run.
    pub(crate) max_iterations: Option<u64>,
    #[serde(default)]
    pub(crate) tags: ConversationTags,
    #[serde(default)]
    pub(crate) workspace: Workspace,
    /// Its usage of models.
    #[serde(default)]
    pub(crate) stats: Stats,
    /// RFC 3339, UTC.
    #[serde(default)]
    pub(crate) created_at: String,
    /// The time of the last event: RFC 3339, UTC.
    #[serde(default)]
    pub(crate) updated_at: String,
    #[serde(default)]
    launched_agent_profile: Value,
    /// The actions that need a confirmation.
    #[serde(default)]
    confirmation_policy: Value,
}

impl Conversation {
    /// Returns true if some of its actions need a confirmation.
    pub(crate) fn needs_confirmation(&self) -> bool {
        let policy = &self.confirmation_policy;
        !policy.is_null() && policy["kind"] != "NeverConfirm"
    }

    /// The id of the agent profile that it was started with.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.launched_agent_profile["agent_profile_id"].as_str()
    }

    /// The time from its creation to its last event, in seconds.
    pub(crate) fn seconds(&self) -> Option<u64> {
        let [created, updated] = [&self.created_at, &self.updated_at].map(|at| parse_timestamp(at));
        let seconds = updated?.duration_since(created?).as_secs();
        Some(seconds.max(0).unsigned_abs())
    }

    /// The time since its creation.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        let created = parse_timestamp(&self.created_at).unwrap_or(now);
        Duration::try_from(now.duration_since(created)).unwrap_or_default()
    }

    /// The time of the last event, or now.
    pub(crate) fn last_event_at(&self) -> Timestamp {
        parse_timestamp(&self.updated_at).unwrap_or_else(Timestamp::now)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Workspace {
    /// Absolute, on the machine of the agent server.
    #[serde(default)]
    pub(crate) working_dir: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Stats {
    #[serde(default)]
    usage_to_metrics: BTreeMap<String, Metrics>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Metrics {
    /// US dollars.
    #[serde(default)]
    pub(crate) accumulated_cost: f64,
    #[serde(default)]
    model_name: String,
    accumulated_token_usage: Option<TokenUsage>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct TokenUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl Metrics {
    fn tokens(&self) -> u64 {
        let usage = self.accumulated_token_usage.as_ref();
        usage.map_or(0, |usage| usage.prompt_tokens + usage.completion_tokens)
    }
}

impl Stats {
    /// The cost of all models together, in US dollars. OpenHands adds binary fractions, so it is
    /// rounded.
    pub(crate) fn cost(&self) -> f64 {
        let metrics = self.usage_to_metrics.values();
        let cost: f64 = metrics.map(|metrics| metrics.accumulated_cost).sum();
        round_cost(cost)
    }

    /// The tokens of all models together, read and written.
    pub(crate) fn tokens(&self) -> u64 {
        self.usage_to_metrics.values().map(Metrics::tokens).sum()
    }

    /// The model with the most tokens.
    pub(crate) fn model(&self) -> Option<&str> {
        let metrics = self.usage_to_metrics.values();
        let used = metrics.filter(|metrics| metrics.tokens() > 0);
        let model = used.max_by_key(|metrics| metrics.tokens())?;
        Some(model.model_name.as_str()).filter(|name| !matches!(*name, "" | "default"))
    }
}

/// The cost in US dollars without the error of binary fractions.
pub(crate) fn round_cost(cost: f64) -> f64 {
    (cost * COST_UNITS).round() / COST_UNITS
}

/// `ConversationExecutionStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Execution {
    /// The agent was not started yet, or has answered a message.
    Idle,
    /// The agent works.
    Running,
    /// The agent was stopped.
    Paused,
    /// The agent waits until its next action is allowed or refused.
    WaitingForConfirmation,
    /// The agent says that it is done.
    Finished,
    /// The run ended with an error.
    Error,
    /// The agent repeats itself.
    Stuck,
    /// The conversation is being deleted.
    Deleting,
    /// A status of a later version.
    #[serde(other)]
    Unknown,
}

impl Execution {
    /// Returns true if the agent does not run and can be started.
    pub(crate) fn is_stopped(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Paused | Self::Finished | Self::Error | Self::Stuck
        )
    }
}

pub(crate) struct NewConversation {
    /// Chosen by us, which makes the request safe to repeat.
    pub(crate) id: TaskId,
    /// The id of the agent profile.
    pub(crate) agent: String,
    /// Absolute, on the machine of the agent server.
    pub(crate) working_dir: String,
    pub(crate) tags: ConversationTags,
    /// The limit of steps in one run.
    pub(crate) max_iterations: Option<u64>,
    /// The actions that need a confirmation; `None` for none.
    pub(crate) confirm: Option<Confirm>,
    /// A plugin that gives the agent more tools.
    pub(crate) plugin: Option<Plugin>,
    /// With a prompt the agent starts at once.
    pub(crate) prompt: Option<String>,
}

/// The actions that need a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confirm {
    /// All.
    Always,
    /// Risky ones, says the model.
    Risky,
}

/// A plugin of a conversation. Holds secrets, so it has no `Debug`.
pub(crate) struct Plugin {
    /// Absolute, on the machine of the agent server.
    pub(crate) directory: String,
    /// Secrets of the conversation, by the names that the plugin refers to.
    pub(crate) secrets: Map<String, Value>,
}

impl AgentServer {
    /// Creates a conversation. If the id exists already, returns that conversation and does not run the prompt again. A
    /// refusal leaves nothing behind.
    pub(crate) async fn create(&self, new: &NewConversation) -> ApiResult<Conversation> {
        let mut body = json!({
            "conversation_id": new.id,
            "agent_profile_id": new.agent,
            "workspace": {"working_dir": new.working_dir},
            // A title costs a call to the model and is not used here.
            "autotitle": false,
            "tags": new.tags,
            "max_iterations": new.max_iterations,
        });
        if let Some(prompt) = &new.prompt {
            body["initial_message"] = message(prompt);
        }
        if let Some(plugin) = &new.plugin {
            body["plugins"] = json!([{"source": plugin.directory}]);
            body["secrets"] = json!(plugin.secrets);
        }
        match new.confirm {
            Some(Confirm::Always) => {
                body["confirmation_policy"] = json!({"kind": "AlwaysConfirm"});
            }
            Some(Confirm::Risky) => {
                body["confirmation_policy"] = json!({"kind": "ConfirmRisky"});
                // The model judges its own actions. Without an analyzer every action counts as risky.
                body["security_analyzer"] = json!({"kind": "LLMSecurityAnalyzer"});
            }
            None => {}
        }
        let request = self.post(&["api", "conversations"]);
        let request = request.timeout(CREATE_TIMEOUT).body(&body);
        self.send(request).await
    }

    pub(crate) async fn conversation(&self, id: TaskId) -> ApiResult<Conversation> {
        let request = self.task_request(Method::GET, id, &[]);
        self.send(request).await
    }

    /// A page of the conversations in state `execution`, or of all; newest first, at most 100.
    pub(crate) async fn conversations(
        &self,
        execution: Option<Execution>,
        limit: u32,
        page: Option<&str>,
    ) -> ApiResult<Page<Conversation>> {
        let limit = limit.to_string();
        let status = json!(execution);
        let mut query = vec![("limit", &*limit), ("sort_order", "CREATED_AT_DESC")];
        query.extend(status.as_str().map(|status| ("status", status)));
        query.extend(page.map(|page| ("page_id", page)));
        let request = self.get(&["api", "conversations", "search"]);
        self.send(request.query(&query)).await
    }

    /// Gives all conversations in state `execution`, or of all states, to `each`: newest first, in pages, and whether there
    /// are more. Ends early when it returns false.
    pub(crate) async fn each_page(
        &self,
        execution: Option<Execution>,
        mut each: impl FnMut(Vec<Conversation>, bool) -> bool,
    ) -> ApiResult<()> {
        let mut page = None;
        loop {
            let listed = self.conversations(execution, PAGE_SIZE, page.as_deref());
            let listed = listed.await?;
            page = listed.next_page_id;
            if !each(listed.items, page.is_some()) || page.is_none() {
                return Ok(());
            }
        }
    }

    /// All conversations that run.
    pub(crate) async fn running(&self) -> ApiResult<Vec<Conversation>> {
        let mut running = Vec::new();
        let add = |page, _| {
            running.extend(page);
            true
        };
        self.each_page(Some(Execution::Running), add).await?;
        Ok(running)
    }

    /// Counts the conversations that run. Takes milliseconds, while agent servers up to 1.31.1 at least take
    /// 2 ms for each of all conversations to list some, and answer nothing else meanwhile.
    pub(crate) async fn count_running(&self) -> ApiResult<usize> {
        let request = self.get(&["api", "conversations", "count"]);
        self.send(request.query(&[("status", "running")])).await
    }

    /// The conversations with these ids that exist.
    pub(crate) async fn conversations_by_id(&self, ids: &[TaskId]) -> ApiResult<Vec<Conversation>> {
        let ids: Vec<String> = ids.iter().map(TaskId::to_string).collect();
        let mut all = Vec::new();
        for ids in ids.chunks(MAX_IDS) {
            let query: Vec<_> = ids.iter().map(|id| ("ids", id.as_str())).collect();
            let request = self.get(&["api", "conversations"]).query(&query);
            let found: Vec<Option<Conversation>> = self.send(request).await?;
            all.extend(found.into_iter().flatten());
        }
        Ok(all)
    }

    /// Sets the tags that were set since they were read. All are replaced at once, so those that another server has written
    /// meanwhile are read again. Waits until the current step has ended.
    pub(crate) async fn set_tags(&self, id: TaskId, tags: &ConversationTags) -> ApiResult<()> {
        let tags = tags.merged_into(self.conversation(id).await?.tags);
        let request = self.task_request(Method::PATCH, id, &[]);
        let request = request.body(&json!({"tags": tags}));
        self.perform(request).await
    }

    /// The last message of the agent, or an empty text.
    pub(crate) async fn final_response(&self, id: TaskId) -> ApiResult<String> {
        #[derive(Deserialize)]
        struct FinalResponse {
            response: String,
        }
        let request = self.task_request(Method::GET, id, &["agent_final_response"]);
        Ok(self.send::<FinalResponse>(request).await?.response)
    }

    /// Switches the conversation to the model of this profile, with the key in that profile.
    pub(crate) async fn use_model(&self, id: TaskId, llm_profile: &str) -> ApiResult<()> {
        let path = ["api", "conversations", &id.to_string(), "switch_profile"];
        let body = json!({"profile_name": llm_profile});
        self.perform(self.post(&path).body(&body)).await
    }
}

/// A user message with this text.
pub(crate) fn message(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

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
        self.perform(request.body(&body)).await
    }

    /// Runs the agent. It takes all actions without a result first: this is a confirmation of them.
    pub(crate) async fn run(&self, id: TaskId) -> ApiResult<()> {
        let request = self.command(id, &["run"], RUN_TIMEOUT);
        self.perform(request).await
    }

    /// Lets the agent take no step after its current one. The answer comes at the end of that step.
    pub(crate) async fn pause(&self, id: TaskId) -> ApiResult<()> {
        let request = self.command(id, &["pause"], INTERRUPT_TIMEOUT);
        self.perform(request).await
    }

    /// Stops the agent and its current command at once.
    pub(crate) async fn interrupt(&self, id: TaskId) -> ApiResult<()> {
        let request = self.command(id, &["interrupt"], INTERRUPT_TIMEOUT);
        self.perform(request).await
    }

    /// Allows or refuses all actions without a result, whatever they are at that moment. A refused agent stops.
    pub(crate) async fn respond(&self, id: TaskId, accept: bool, reason: &str) -> ApiResult<()> {
        let path = ["events", "respond_to_confirmation"];
        let request = self.command(id, &path, INTERRUPT_TIMEOUT);
        let body = json!({"accept": accept, "reason": reason});
        self.perform(request.body(&body)).await
    }

    /// Deletes the conversation. Its directory stays.
    pub(crate) async fn delete(&self, id: TaskId) -> ApiResult<()> {
        let request = self.task_request(Method::DELETE, id, &[]);
        self.perform(request.timeout(DELETE_TIMEOUT)).await
    }

    fn command(&self, id: TaskId, path: &[&str], timeout: Duration) -> Request {
        self.task_request(Method::POST, id, path).timeout(timeout)
    }
}

#[derive(Deserialize)]
struct Settings {
    active_agent_profile_id: Option<String>,
    #[serde(default)]
    llm_api_key_is_set: bool,
    agent_settings: Value,
}

/// An agent profile. It refers to a model's profile, which holds the key.
#[derive(Debug, Deserialize)]
pub(crate) struct AgentProfile {
    /// Its id, by which tasks are started.
    pub(crate) id: String,
    /// Its name, which callers use.
    pub(crate) name: String,
    /// Such as `openhands`.
    pub(crate) agent_kind: Option<String>,
    /// Name of the model's profile.
    pub(crate) llm_profile_ref: Option<String>,
}

/// A model's profile: the model, its endpoint and its key, which is not read.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub(crate) struct ModelProfile {
    /// For run_task.
    pub(crate) name: String,
    // Such as `anthropic/claude-sonnet-4-5`.
    pub(crate) model: Option<String>,
}

/// The list of agent profiles, without their instructions.
#[derive(Deserialize)]
struct Profiles {
    #[serde(default)]
    profiles: Vec<AgentProfile>,
    active_agent_profile_id: Option<String>,
}

impl AgentServer {
    /// The id of the agent profile `name`, or of the active one.
    ///
    /// # Errors
    /// There is no usable profile; the error says what to do.
    pub(crate) async fn profile_id(&self, name: Option<&str>) -> Result<String, ToolError> {
        #[derive(Deserialize)]
        struct ProfileDetail {
            profile: AgentProfile,
        }
        let Some(name) = name else {
            let active = self.agent_profiles().await?.1;
            return active.ok_or_else(|| ToolError::conflict(NO_MODEL));
        };
        let request = self.get(&["api", "agent-profiles", name]);
        match self.send::<ProfileDetail>(request).await {
            Err(failure) if failure.is_not_found() => Err(ToolError::conflict(format!(
                "There is no agent profile {name:?} on the OpenHands agent server: create it \
                 there, or leave agent (OPENHANDS_AGENT_PROFILE) out to use the active one."
            ))),
            found => Ok(found?.profile.id),
        }
    }

    /// The profiles of models.
    pub(crate) async fn models(&self) -> ApiResult<Vec<ModelProfile>> {
        #[derive(Deserialize)]
        struct Models {
            profiles: Vec<ModelProfile>,
        }
        let request = self.get(&["api", "profiles"]);
        Ok(self.send::<Models>(request).await?.profiles)
    }

    /// All agent profiles, and the id of the active one. Empty without a model: to list none creates one from the
    /// settings, which would refer to nothing and stay broken.
    pub(crate) async fn agent_profiles(&self) -> ApiResult<(Vec<AgentProfile>, Option<String>)> {
        let settings: Settings = self.send(self.get(&["api", "settings"])).await?;
        let agent = &settings.agent_settings;
        // By its key, by its endpoint, or as part of the agent.
        let has_model = settings.llm_api_key_is_set
            || !agent["llm"]["base_url"].is_null()
            || agent["agent_kind"] == "acp";
        if settings.active_agent_profile_id.is_none() && !has_model {
            return Ok((Vec::new(), None));
        }
        let listed: Profiles = self.send(self.get(&["api", "agent-profiles"])).await?;
        Ok((listed.profiles, listed.active_agent_profile_id))
    }
}
