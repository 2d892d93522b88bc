//! `get_task_events`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::api::{Event, TaskId, kind};
use crate::events::summary;

const DEFAULT_LIMIT: u32 = 30;
/// Bytes of an answer, which stays under 2,000 tokens.
const MAX_BYTES: usize = 6_500;
/// What a row costs beside its text.
const ROW_OVERHEAD: usize = 80;

/// Returns what happened in a task, oldest first, an event in one line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskEvents {
    /// From run_task.
    task_id: TaskId,
    /// next_since of the last answer: only what came later.
    since: Option<String>,
    /// Only these; default all.
    #[serde(default)]
    kinds: Vec<Kind>,
    /// Default 30.
    limit: Option<Bounded<1, 90>>,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// What the agent did.
    Action,
    /// What came of it.
    Output,
    /// What was said.
    Message,
    /// What went wrong.
    Error,
    /// How it was stopped, or an action refused.
    Stop,
}

const ALL: [Kind; 5] = [
    Kind::Action,
    Kind::Output,
    Kind::Message,
    Kind::Error,
    Kind::Stop,
];

impl Kind {
    /// The agent server's names. That of the system prompt is not among them: 20 KB.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Action => &[kind::ACTION],
            Self::Output => &[kind::OBSERVATION],
            Self::Message => &[kind::MESSAGE],
            Self::Error => &[kind::RUN_ERROR, kind::TOOL_ERROR],
            Self::Stop => &[kind::PAUSE, kind::INTERRUPT, kind::REJECTION],
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Events {
    task_id: TaskId,
    events: Vec<Row>,
    /// There are more already.
    more: bool,
    /// Pass it as since for what comes later.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
    /// In the agent server's own time.
    time: String,
    kind: Kind,
    text: String,
}

impl Tool for GetTaskEvents {
    const NAME: &'static str = "get_task_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Events;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Events, ToolError> {
        let id = self.task_id;
        let since = self.since.as_deref().map(Since::read).transpose()?;
        let limit = self.limit.map_or(DEFAULT_LIMIT, Bounded::get) as usize;
        let kinds = if self.kinds.is_empty() {
            &ALL[..]
        } else {
            &self.kinds
        };
        let from = since.as_ref().map(|since| since.time);
        let server = service.servers.at(id).await?;
        let mut found = Vec::new();
        for wanted in ALL.into_iter().filter(|kind| kinds.contains(kind)) {
            for name in wanted.names() {
                // One more for the event of `since`, one more to know whether there are more.
                let events = server.events(id, name, from, (limit + 2).min(100));
                found.extend(events.await?.into_iter().map(|event| (wanted, event)));
            }
        }
        found.sort_by(|(_, a), (_, b)| a.timestamp.cmp(&b.timestamp));
        if let Some(since) = &since {
            found.retain(|(_, event)| event.id != since.id);
        }
        Ok(Events::new(id, found, limit, self.since))
    }
}

impl GetTaskEvents {
    /// All that happened in a task, as far as an answer holds it.
    pub(crate) fn all(task_id: TaskId) -> Self {
        Self {
            task_id,
            since: None,
            kinds: Vec::new(),
            limit: None,
        }
    }
}

impl Events {
    fn new(id: TaskId, found: Vec<(Kind, Event)>, limit: usize, since: Option<String>) -> Self {
        let mut answer = Self {
            task_id: id,
            events: Vec::new(),
            more: false,
            next_since: since,
        };
        let mut room = MAX_BYTES;
        for (kind, event) in found {
            let text = summary::event(&event);
            let cost =
                serde_json::to_string(&text).map_or(text.len(), |text| text.len()) + ROW_OVERHEAD;
            match room.checked_sub(cost) {
                Some(left) if answer.events.len() < limit => room = left,
                _ => {
                    answer.more = true;
                    break;
                }
            }
            answer.next_since = Some(format!("{}/{}", event.timestamp, event.id));
            answer.events.push(Row {
                time: event.timestamp.chars().take(19).collect(),
                kind,
                text,
            });
        }
        answer
    }
}

/// The last event that the caller has seen.
struct Since<'a> {
    time: &'a str,
    id: &'a str,
}

impl<'a> Since<'a> {
    fn read(text: &'a str) -> Result<Self, ToolError> {
        let is_time = |c: char| c.is_ascii_digit() || "-:.TZ+".contains(c);
        match text.split_once('/') {
            Some((time, id))
                if time.len() < 40 && !time.is_empty() && time.chars().all(is_time) =>
            {
                Ok(Self { time, id })
            }
            _ => Err(ToolError::invalid_argument(
                "since must be next_since of an earlier answer.",
            )),
        }
    }
}
