//! Events of a conversation. They are read by kind and a few at a time, because some are huge: the
//! system prompt alone is 20 KB.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use upstream::http::Method;

use crate::api::agent_server::{AgentServer, Page};
use crate::api::failure::ApiResult;
use crate::api::task_id::TaskId;

/// Kinds of events.
pub(crate) mod event_kind {
    /// The agent calls a tool.
    pub(crate) const ACTION: &str = "ActionEvent";
    pub(crate) const OBSERVATION: &str = "ObservationEvent";
    /// The error that ended a run.
    pub(crate) const RUN_ERROR: &str = "ConversationErrorEvent";
    /// The error of a tool, which goes to the model.
    pub(crate) const TOOL_ERROR: &str = "AgentErrorEvent";
    /// The agent was stopped at once.
    pub(crate) const INTERRUPT: &str = "InterruptEvent";
    /// The agent was stopped after a step.
    pub(crate) const PAUSED: &str = "PauseEvent";
    /// A message of the user or the agent.
    pub(crate) const MESSAGE: &str = "MessageEvent";
    /// A part of the state has changed.
    pub(crate) const STATE: &str = "ConversationStateUpdateEvent";
    /// The user has refused an action.
    pub(crate) const REJECTION: &str = "UserRejectObservation";
}

/// Observations that are searched for the newest output of a command.
const OUTPUT_SEARCH_LIMIT: &str = "5";
/// Changes of the state that are searched for the start of a run: few come before it.
const START_SEARCH_LIMIT: &str = "30";
/// Actions in one response; one may hold a whole file.
const ACTIONS_PER_PAGE: &str = "20";

/// An event of any kind, with the fields that a summary needs.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) id: String,
    /// Local time of the agent server.
    pub(crate) timestamp: String,
    /// One of [`event_kind`], or another one.
    pub(crate) kind: String,
    /// Such as `agent` or `user`.
    #[serde(default)]
    pub(crate) source: String,
    /// The tool of an action or observation.
    pub(crate) tool_name: Option<String>,
    /// The agent's message beside an action.
    #[serde(default)]
    pub(crate) thought: Vec<TextPart>,
    /// The arguments of an action; `None` if they were invalid.
    pub(crate) action: Option<Map<String, Value>>,
    pub(crate) observation: Option<Observation>,
    pub(crate) llm_message: Option<EventMessage>,
    /// The code of an error.
    pub(crate) code: Option<String>,
    /// The user's reason for refusing an action.
    pub(crate) rejection_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Observation {
    pub(crate) kind: String,
    pub(crate) exit_code: Option<i64>,
    /// The action has failed.
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) content: Vec<TextPart>,
}

/// A message from the user or the agent.
#[derive(Debug, Deserialize)]
pub(crate) struct EventMessage {
    #[serde(default)]
    pub(crate) content: Vec<TextPart>,
}

pub(crate) struct CommandOutcome {
    pub(crate) printed: String,
    /// `None` while it runs, or if the terminal did not tell.
    pub(crate) exit_code: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TextPart {
    /// Empty if the part is an image.
    #[serde(default)]
    pub(crate) text: String,
}

/// The error that ended a run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunError {
    /// Such as `MaxIterationsReached`.
    pub(crate) code: String,
    /// The agent server's classification, if it has one.
    pub(crate) classification: Option<Classification>,
}

/// The agent server's classification of an error.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Classification {
    /// Such as `auth` or `transient`.
    pub(crate) kind: String,
}

/// The time of an event. Times of one server can be compared as text.
#[derive(Debug, Deserialize)]
struct EventTime {
    timestamp: String,
    #[serde(default)]
    error: Value,
}

impl AgentServer {
    /// Counts the messages of one `source`: `agent` or `user`.
    pub(crate) async fn count_messages(&self, id: TaskId, source: &str) -> ApiResult<u64> {
        self.count(id, event_kind::MESSAGE, ("source", source))
            .await
    }

    pub(crate) async fn count_actions(&self, id: TaskId) -> ApiResult<u64> {
        self.count(id, event_kind::ACTION, ("source", "agent"))
            .await
    }

    /// Counts the actions before `action`.
    pub(crate) async fn count_before(&self, id: TaskId, action: &Event) -> ApiResult<u64> {
        let before = ("timestamp__lt", action.timestamp.as_str());
        self.count(id, event_kind::ACTION, before).await
    }

    async fn count(&self, id: TaskId, kind: &str, more: (&str, &str)) -> ApiResult<u64> {
        let kind = self.kind_filter(kind).await?;
        let request = self.task_request(Method::GET, id, &["events", "count"]);
        request.query(&[("kind", &*kind), more]).send().await
    }

    /// The newest event of `kind`.
    pub(crate) async fn last_event<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
    ) -> ApiResult<Option<T>> {
        let page = self.recent_events(id, kind, "1").await?;
        Ok(page.into_iter().next())
    }

    /// The first page of the actions after `last`, oldest first.
    pub(crate) async fn actions_after(
        &self,
        id: TaskId,
        last: Option<&Event>,
    ) -> ApiResult<Vec<Event>> {
        let since = last.map(|last| last.timestamp.as_str());
        let actions = self.events_since(id, event_kind::ACTION, since, ACTIONS_PER_PAGE);
        let mut actions: Vec<Event> = actions.await?;
        // The actions of exactly that time are included.
        let known = |action: &Event| last.is_some_and(|last| last.id == action.id);
        if let Some(known) = actions.iter().position(known) {
            actions.drain(..=known);
        }
        Ok(actions)
    }

    /// The time of the newest event of `kind`.
    pub(crate) async fn last_time(&self, id: TaskId, kind: &str) -> ApiResult<Option<String>> {
        let event: Option<EventTime> = self.last_event(id, kind).await?;
        Ok(event.map(|event| event.timestamp))
    }

    /// Returns true if a run has begun after `time`, which [`Self::last_time`] gave.
    pub(crate) async fn has_begun_since(&self, id: TaskId, time: Option<&str>) -> ApiResult<bool> {
        #[derive(Deserialize)]
        struct StateChange {
            timestamp: String,
            #[serde(default)]
            key: String,
            #[serde(default)]
            value: Value,
        }
        let changes = self.events_since(id, event_kind::STATE, time, START_SEARCH_LIMIT);
        let changes: Vec<StateChange> = changes.await?;
        let is_start =
            |change: &StateChange| change.key == "execution_status" && change.value == "running";
        let is_later = |change: &&StateChange| time.is_none_or(|time| *change.timestamp > *time);
        Ok(changes.iter().filter(is_later).any(is_start))
    }

    /// The time of the newest message or action. Unlike `updated_at` it does not change with tags.
    pub(crate) async fn last_work(&self, id: TaskId) -> ApiResult<Option<String>> {
        let (action, message) = tokio::try_join!(
            self.last_time(id, event_kind::ACTION),
            self.last_time(id, event_kind::MESSAGE),
        )?;
        Ok(action.max(message))
    }

    /// The time of the last restart of the agent server that interrupted a step.
    pub(crate) async fn last_restart(&self, id: TaskId) -> ApiResult<Option<String>> {
        let event: Option<EventTime> = self.last_event(id, event_kind::TOOL_ERROR).await?;
        // Other errors of tools go to the model, and the run continues.
        let error = |event: &EventTime| event.error.as_str().map(str::to_owned);
        let is_restart = |error: String| error.starts_with("A restart occurred");
        let event = event.filter(|event| error(event).is_some_and(is_restart));
        Ok(event.map(|event| event.timestamp))
    }

    /// The outcome of the newest command.
    pub(crate) async fn last_command(&self, id: TaskId) -> ApiResult<Option<CommandOutcome>> {
        #[derive(Deserialize)]
        struct ObservationEvent {
            observation: Observation,
        }
        let events: Vec<ObservationEvent> = self
            .recent_events(id, event_kind::OBSERVATION, OUTPUT_SEARCH_LIMIT)
            .await?;
        let mut observations = events.into_iter().map(|event| event.observation);
        let newest = observations.find(|observation| observation.kind == "TerminalObservation");
        Ok(newest.map(|observation| CommandOutcome {
            exit_code: observation.exit_code.filter(|code| *code >= 0),
            printed: observation
                .content
                .into_iter()
                .map(|part| part.text)
                .collect(),
        }))
    }

    /// At most `limit` (100) events of `kind`, oldest first, starting at the time `since`. Includes
    /// the events of exactly that time.
    pub(crate) async fn events_since<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
        since: Option<&str>,
        limit: &str,
    ) -> ApiResult<Vec<T>> {
        let mut query = vec![("sort_order", "TIMESTAMP"), ("limit", limit)];
        query.extend(since.map(|since| ("timestamp__gte", since)));
        self.search(id, kind, query).await
    }

    async fn recent_events<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
        limit: &str,
    ) -> ApiResult<Vec<T>> {
        let query = vec![("sort_order", "TIMESTAMP_DESC"), ("limit", limit)];
        self.search(id, kind, query).await
    }

    async fn search<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
        query: Vec<(&str, &str)>,
    ) -> ApiResult<Vec<T>> {
        Ok(self.event_page(id, kind, query, None).await?.items)
    }

    /// A page of the events of `kind`; `page` is the cursor of a later one.
    pub(crate) async fn event_page<T: DeserializeOwned>(
        &self,
        id: TaskId,
        kind: &str,
        mut query: Vec<(&str, &str)>,
        page: Option<&str>,
    ) -> ApiResult<Page<T>> {
        let kind = self.kind_filter(kind).await?;
        query.push(("kind", &kind));
        query.extend(page.map(|page| ("page_id", page)));
        let request = self.task_request(Method::GET, id, &["events", "search"]);
        request.query(&query).send().await
    }
}
