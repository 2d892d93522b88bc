//! `get_task_events`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::text::fitting;

use crate::OpenHands;
use crate::api::{Event, TaskId, event_kind, summary};

const DEFAULT_LIMIT: u32 = 30;
/// Bytes of an answer, which stays under 2,000 tokens.
const MAX_BYTES: usize = 6_500;

/// Returns the events of a task, oldest first, one line each.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskEvents {
    /// From run_task.
    task_id: TaskId,
    /// Previous next_since: only later events.
    since: Option<String>,
    /// Only these; default all.
    #[serde(default)]
    kinds: Vec<EventKind>,
    /// Default 30.
    limit: Option<Bounded<1, 90>>,
}

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EventKind {
    /// Action of the agent.
    Action,
    /// Its result.
    Output,
    /// User or agent.
    Message,
    /// Failure.
    Error,
    /// Stopped, or an action was refused.
    Stop,
}

const ALL_KINDS: [EventKind; 5] = [
    EventKind::Action,
    EventKind::Output,
    EventKind::Message,
    EventKind::Error,
    EventKind::Stop,
];

impl EventKind {
    /// The agent server's names of this kind. The system prompt is left out: 20 KB.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Action => &[event_kind::ACTION],
            Self::Output => &[event_kind::OBSERVATION],
            Self::Message => &[event_kind::MESSAGE],
            Self::Error => &[event_kind::RUN_ERROR, event_kind::TOOL_ERROR],
            Self::Stop => &[
                event_kind::PAUSED,
                event_kind::INTERRUPT,
                event_kind::REJECTION,
            ],
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct EventPage {
    task_id: TaskId,
    events: Vec<EventLine>,
    /// There are more.
    more: bool,
    /// Pass it as since for later events.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct EventLine {
    /// Agent server's local time.
    time: String,
    kind: EventKind,
    text: String,
    /// The cursor after this event.
    #[serde(skip)]
    cursor: String,
}

impl Tool for GetTaskEvents {
    const NAME: &'static str = "get_task_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = EventPage;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<EventPage, ToolError> {
        let id = self.task_id;
        let since = self.since.as_deref().map(EventCursor::read).transpose()?;
        let limit = self.limit.map_or(DEFAULT_LIMIT, Bounded::get) as usize;
        let is_wanted = |kind: &EventKind| self.kinds.is_empty() || self.kinds.contains(kind);
        let from = since.as_ref().map(|since| since.time);
        let server = service.task_server(id, call).await?;
        // One more for the event of `since`, and one more to learn whether there are more.
        let fetched = (limit + 2).min(100).to_string();
        let mut found = Vec::new();
        for wanted in ALL_KINDS.into_iter().filter(is_wanted) {
            for name in wanted.names() {
                let events: Vec<Event> = server.events_since(id, name, from, &fetched).await?;
                found.extend(events.into_iter().map(|event| (wanted, event)));
            }
        }
        found.sort_by(|(_, a), (_, b)| a.timestamp.cmp(&b.timestamp));
        if let Some(since) = &since {
            found.retain(|(_, event)| event.id != since.id);
        }
        Ok(EventPage::new(id, found, limit, self.since))
    }
}

impl GetTaskEvents {
    /// A call for all events of a task, as far as they fit into an answer.
    pub(crate) fn all(task_id: TaskId) -> Self {
        Self {
            task_id,
            since: None,
            kinds: Vec::new(),
            limit: None,
        }
    }
}

impl EventPage {
    fn new(
        task_id: TaskId,
        found: Vec<(EventKind, Event)>,
        limit: usize,
        since: Option<String>,
    ) -> Self {
        let count = found.len();
        let lines = found.into_iter().take(limit);
        let lines = lines.map(|(kind, event)| EventLine {
            time: event.timestamp.chars().take(19).collect(),
            kind,
            text: summary::event(&event),
            cursor: format!("{}/{}", event.timestamp, event.id),
        });
        let events = fitting(lines.collect(), MAX_BYTES).rows;
        Self {
            task_id,
            more: events.len() < count,
            next_since: events.last().map(|last| last.cursor.clone()).or(since),
            events,
        }
    }
}

/// The last event that the caller has read.
struct EventCursor<'a> {
    time: &'a str,
    id: &'a str,
}

impl<'a> EventCursor<'a> {
    fn read(text: &'a str) -> Result<Self, ToolError> {
        let is_time = |c: char| c.is_ascii_digit() || "-:.TZ+".contains(c);
        let is_valid = |time: &str| (1..40).contains(&time.len()) && time.chars().all(is_time);
        let parts = text.split_once('/').filter(|(time, _)| is_valid(time));
        let (time, id) = parts.ok_or_else(|| {
            ToolError::invalid_argument("since must be the next_since of a previous result.")
        })?;
        Ok(Self { time, id })
    }
}
