//! Events of the engine's objects: `GET /events`.

use std::collections::{BTreeMap, VecDeque};

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::engine::client::Engine;
use crate::engine::connector::ByteStream;
use crate::engine::error::EngineError;
use crate::engine::path::Path;

/// Most past events that are kept; Docker remembers 256, Podman has no limit.
const MAX_PAST_EVENTS: usize = 10_000;
/// Longest event, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// The kinds of objects whose events are requested.
const KINDS: [&str; 5] = ["container", "image", "network", "volume", "daemon"];
/// The details that are shown and recorded; the others are labels.
pub(crate) const SHOWN_DETAILS: [&str; 6] = [
    "image",
    "exitCode",
    "signal",
    "oldName",
    "container",
    "type",
];
/// The actions whose effect clients can see. The engine sends no others, in particular not the three
/// events of every run of a health check, which contain command lines. `died`, `remove`, `removed`
/// and `rename` are sent by Podman.
const ACTIONS: &str = "create start die died oom kill stop restart pause unpause rename update destroy \
    remove removed health_status pull push tag untag delete import load commit connect disconnect \
    mount unmount prune reload";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    /// `container`, `image`, `network`, `volume`, …
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    /// `start`, `die`, `health_status: healthy`, …
    #[serde(rename = "Action")]
    pub(crate) action: String,
    #[serde(rename = "Actor")]
    actor: Actor,
    /// Unix seconds.
    pub(crate) time: i64,
    /// Unix nanoseconds.
    #[serde(rename = "timeNano")]
    pub(crate) time_nano: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Actor {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Attributes")]
    attributes: BTreeMap<String, String>,
}

impl Event {
    pub(crate) fn id(&self) -> &str {
        &self.actor.id
    }

    /// The name of the object; an id if it has none.
    pub(crate) fn name(&self) -> &str {
        self.attribute("name").unwrap_or_else(|| match &*self.kind {
            "container" => self.id().get(..12).unwrap_or(self.id()),
            _ => self.id(),
        })
    }

    /// A detail that the engine gives, for example `name`, `exitCode`, `signal`.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.actor.attributes.get(name).map(String::as_str)
    }

    /// The action without its detail: `health_status` of `health_status: healthy`.
    pub(crate) fn verb(&self) -> &str {
        self.action.split(':').next().unwrap_or_default()
    }

    /// All details; they include the labels of a container.
    pub(crate) fn attributes(&self) -> &BTreeMap<String, String> {
        &self.actor.attributes
    }

    /// Unix nanoseconds.
    pub(crate) fn nanos(&self) -> i64 {
        match self.time_nano {
            0 => self.time.saturating_mul(1_000_000_000),
            nanos => nanos,
        }
    }

    /// A copy without labels, which may be long and hold secrets.
    pub(crate) fn trimmed(&self) -> Self {
        let mut event = self.clone();
        let attributes = &mut event.actor.attributes;
        attributes.retain(|key, _| key == "name" || SHOWN_DETAILS.contains(&&**key));
        event
    }

    /// Whether the main process of a container ended.
    pub(crate) fn is_exit(&self) -> bool {
        matches!(&*self.action, "die" | "died")
    }
}

/// A stream of events: one JSON object per line.
pub(crate) struct EventStream {
    reply: ByteStream,
    /// Bytes of an incomplete line.
    rest: Vec<u8>,
}

impl EventStream {
    fn new(reply: ByteStream) -> Self {
        let rest = Vec::new();
        Self { reply, rest }
    }

    /// The next event with an effect; `None` after the last one. Skips invalid lines.
    /// Errors when the stream breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, EngineError> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(event) if has_effect(&event) => return Ok(Some(event)),
                    _ => {}
                }
            }
            if self.rest.len() as u64 > MAX_LINE_BYTES {
                return Err(EngineError::TooLarge(MAX_LINE_BYTES));
            }
            match self.reply.next().await {
                Some(chunk) => self.rest.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    }
}

/// Whether clients can see its effect. Checked here too, since some engines ignore the filter.
fn has_effect(event: &Event) -> bool {
    actions().any(|action| action == event.verb())
}

fn actions() -> impl Iterator<Item = &'static str> {
    ACTIONS.split(' ')
}

impl Engine {
    /// All events with an effect since `since` (unix nanoseconds) that the engine remembers, then new
    /// ones as they happen. Ends only with the connection.
    pub(crate) fn events(&self, since: i64) -> EventStream {
        let filters = json!({"type": KINDS, "event": actions().collect::<Vec<_>>()});
        let (seconds, nanos) = (since / 1_000_000_000, since % 1_000_000_000);
        let path = Path::to("/events")
            .query("filters", filters)
            .query("since", format!("{seconds}.{nanos:09}"));
        EventStream::new(self.connector.stream(path))
    }

    /// The newest events with an effect between two times (unix seconds, `until` with a fraction) that
    /// the engine remembers and that pass `filters`, oldest first. The caller has to apply a timeout.
    /// An `until` in the future delays the reply until then.
    pub(crate) async fn past_events(
        &self,
        (since, until): (i64, &str),
        filters: Value,
    ) -> Result<VecDeque<Event>, EngineError> {
        let path = Path::to("/events")
            .query("since", since)
            .query("until", until)
            .query("filters", filters);
        let mut events = EventStream::new(self.connector.stream(path));
        let mut past = VecDeque::new();
        while let Some(event) = events.next().await? {
            if past.len() == MAX_PAST_EVENTS {
                past.pop_front();
            }
            past.push_back(event);
        }
        Ok(past)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn events_are_parsed_from_chunks_of_any_size() {
        let stream = concat!(
            r#"{"Type":"container","Action":"die","Actor":{"ID":"ab","Attributes":{"exitCode":"3"}},"time":1,"timeNano":1000000001}"#,
            "\n{\"no\n\n",
            r#"{"Type":"container","Action":"exec_create: sh -c x"}"#,
            "\n",
            r#"{"Type":"container","Action":"health_status: healthy"}"#,
            "\n{\"Type\":\"never ended"
        );
        for size in [1, 7, 4096] {
            let chunks = stream.as_bytes().chunks(size);
            let chunks = chunks.map(|chunk| Ok(Bytes::copy_from_slice(chunk)));
            let mut events = EventStream::new(stream::iter(chunks).boxed());
            let mut seen = Vec::new();
            while let Some(event) = events.next().await.unwrap() {
                seen.push(event);
            }
            let actions: Vec<_> = seen.iter().map(|event| &*event.action).collect();
            assert_eq!(actions, ["die", "health_status: healthy"]);
            assert!(seen[0].is_exit() && seen[0].id() == "ab");
            assert_eq!(seen[0].attribute("exitCode"), Some("3"));
        }
    }
}
