//! Events of a conversation: always by kind and a few at a time, because others are huge (the
//! system prompt alone is 20 KB).

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use upstream::http::Method;

use super::agent_server::AgentServer;
use super::failure::Failure;
use super::task_id::TaskId;

/// Kinds of events.
pub(crate) mod kind {
    pub(crate) const ACTION: &str = "ActionEvent";
    pub(crate) const OBSERVATION: &str = "ObservationEvent";
    pub(crate) const RUN_ERROR: &str = "ConversationErrorEvent";
    pub(crate) const TOOL_ERROR: &str = "AgentErrorEvent";
    pub(crate) const INTERRUPT: &str = "InterruptEvent";
    pub(crate) const PAUSE: &str = "PauseEvent";
    pub(crate) const MESSAGE: &str = "MessageEvent";
    pub(crate) const REJECTION: &str = "UserRejectObservation";
}

/// Observations looked through for the newest output of a command.
const RECENT: &str = "5";
/// Actions read at once; one may hold a whole file.
const PAGE: &str = "20";

/// Something that the agent did.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Action {
    id: String,
    timestamp: String,
    pub(crate) tool_name: String,
    /// In the model's words, or `tool: {arguments}` where it found none.
    pub(crate) summary: Option<String>,
    /// What the agent said while it did it.
    #[serde(default)]
    pub(crate) thought: Vec<Text>,
    /// The arguments; none where they made no sense.
    pub(crate) action: Option<Map<String, Value>>,
}

impl Action {
    /// Its id among the events.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// Anything that happened, as far as one line can tell it.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) id: String,
    /// When it happened, in the agent server's own time.
    pub(crate) timestamp: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) tool_name: Option<String>,
    #[serde(default)]
    pub(crate) summary: Option<String>,
    #[serde(default)]
    pub(crate) action: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) observation: Option<Observation>,
    #[serde(default)]
    pub(crate) llm_message: Option<Message>,
    /// Of an error.
    #[serde(default)]
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) rejection_reason: Option<String>,
}

/// What came of an action.
#[derive(Debug, Deserialize)]
pub(crate) struct Observation {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) exit_code: Option<i64>,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) content: Vec<Text>,
}

/// What somebody said.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    #[serde(default)]
    pub(crate) content: Vec<Text>,
}

/// A piece of text.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Text {
    /// None where it is a picture.
    #[serde(default)]
    pub(crate) text: String,
}

/// Why a run ended as an error.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunError {
    /// Such as `MaxIterationsReached`.
    pub(crate) code: String,
    pub(crate) classification: Option<Classification>,
}

/// The agent server's own judgement of an error.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Classification {
    /// Such as `auth` or `transient`.
    pub(crate) kind: String,
}

/// An event with the time at which it happened; times of one server compare as text.
#[derive(Debug, Deserialize)]
struct Timed {
    timestamp: String,
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

impl AgentServer {
    /// How often the agent has answered without doing anything.
    pub(crate) async fn count_messages(&self, id: TaskId) -> Result<u64, Failure> {
        self.count(id, &[("kind", kind::MESSAGE), ("source", "agent")])
            .await
    }

    /// How often the agent was told something.
    pub(crate) async fn count_prompts(&self, id: TaskId) -> Result<u64, Failure> {
        self.count(id, &[("kind", kind::MESSAGE), ("source", "user")])
            .await
    }

    /// At most `limit` (100) events of `kind`, oldest first, from `since` on. An event of `since`
    /// itself comes again.
    pub(crate) async fn events(
        &self,
        id: TaskId,
        kind: &str,
        since: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Event>, Failure> {
        let limit = limit.to_string();
        let mut query = vec![
            ("kind", kind),
            ("sort_order", "TIMESTAMP"),
            ("limit", &limit),
        ];
        query.extend(since.map(|since| ("timestamp__gte", since)));
        self.search(id, &query).await
    }

    /// How many actions came before `action`.
    pub(crate) async fn count_before(&self, id: TaskId, action: &Action) -> Result<u64, Failure> {
        let before = ("timestamp__lt", action.timestamp.as_str());
        self.count(id, &[("kind", kind::ACTION), before]).await
    }

    async fn count(&self, id: TaskId, query: &[(&str, &str)]) -> Result<u64, Failure> {
        let request = self.about_task(Method::GET, id, &["events", "count"], query);
        request.send().await
    }

    /// The newest event of `kind`.
    pub(crate) async fn last_event<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
    ) -> Result<Option<T>, Failure> {
        let page = self.recent_events(id, kind, "1").await?;
        Ok(page.into_iter().next())
    }

    /// The actions after `last`, oldest first; where there are many, the first of them.
    pub(crate) async fn actions_after(
        &self,
        id: TaskId,
        last: Option<&Action>,
    ) -> Result<Vec<Action>, Failure> {
        let mut query = vec![
            ("kind", kind::ACTION),
            ("sort_order", "TIMESTAMP"),
            ("limit", PAGE),
        ];
        query.extend(last.map(|last| ("timestamp__gte", last.timestamp.as_str())));
        let mut actions: Vec<Action> = self.search(id, &query).await?;
        // Those of the same moment come again.
        if let Some(known) = actions
            .iter()
            .position(|action| Some(&action.id) == last.map(|l| &l.id))
        {
            actions.drain(..=known);
        }
        Ok(actions)
    }

    /// When the newest event of `kind` happened.
    pub(crate) async fn last_time(
        &self,
        id: TaskId,
        kind: &str,
    ) -> Result<Option<String>, Failure> {
        let event: Option<Timed> = self.last_event(id, kind).await?;
        Ok(event.map(|event| event.timestamp))
    }

    /// When the agent server last came back from a restart in the middle of a step.
    pub(crate) async fn last_restart(&self, id: TaskId) -> Result<Option<String>, Failure> {
        #[derive(Deserialize)]
        struct Event {
            timestamp: String,
            error: String,
        }
        let event: Option<Event> = self.last_event(id, kind::TOOL_ERROR).await?;
        // Other errors of tools are told to the model, which goes on.
        let event = event.filter(|event| event.error.starts_with("A restart occurred"));
        Ok(event.map(|event| event.timestamp))
    }

    /// What the newest command printed.
    pub(crate) async fn last_output(&self, id: TaskId) -> Result<Option<String>, Failure> {
        #[derive(Deserialize)]
        struct Observed {
            observation: Observation,
        }
        let events: Vec<Observed> = self.recent_events(id, kind::OBSERVATION, RECENT).await?;
        let mut observations = events.into_iter().map(|event| event.observation);
        let newest = observations.find(|observation| observation.kind == "TerminalObservation");
        Ok(newest.map(|observation| observation.content.into_iter().map(|c| c.text).collect()))
    }

    async fn recent_events<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
        limit: &str,
    ) -> Result<Vec<T>, Failure> {
        let query = [
            ("kind", kind),
            ("sort_order", "TIMESTAMP_DESC"),
            ("limit", limit),
        ];
        self.search(id, &query).await
    }

    async fn search<T: DeserializeOwned>(
        &self,
        id: TaskId,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, Failure> {
        let request = self.about_task(Method::GET, id, &["events", "search"], query);
        Ok(request.send::<Page<T>>().await?.items)
    }
}
