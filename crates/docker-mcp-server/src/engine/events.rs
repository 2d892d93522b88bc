//! Events of the engine's objects: `GET /events`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;

use super::connector::ByteStream;
use super::error::EngineError;
use super::path::Path;
use super::{Engine, within};
use crate::name::ContainerName;

/// Most past events that are kept; the engine itself remembers a few hundred.
const MAX_PAST_EVENTS: usize = 1_000;
/// Longest event, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// The kinds of objects whose events are requested.
const KINDS: [&str; 3] = ["container", "image", "network"];
/// The actions whose effect clients can see. The engine sends no others, in particular not the three
/// events of every run of a health check, which contain command lines. `died`, `remove`, `removed`
/// and `rename` are sent by Podman.
const ACTIONS: &str = "create start die died oom kill stop restart pause unpause rename update destroy \
    remove removed health_status pull tag untag delete import load commit connect disconnect";

/// One event.
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
    /// The id of the object.
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
    is_wanted: fn(&Event) -> bool,
}

impl EventStream {
    fn new(reply: ByteStream, is_wanted: fn(&Event) -> bool) -> Self {
        Self {
            reply,
            rest: Vec::new(),
            is_wanted,
        }
    }

    /// The next wanted event; `None` after the last one. Skips invalid lines.
    /// Errors when the stream breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, EngineError> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(event) if (self.is_wanted)(&event) => return Ok(Some(event)),
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
        EventStream::new(self.connector.stream(path), has_effect)
    }

    /// All events between two times (unix seconds, with a fraction), of objects of `kind` if given.
    /// Leaves out commands in containers: every run of a health check makes three such events. The
    /// caller has to apply a timeout.
    pub(crate) fn history(&self, since: i64, until: &str, kind: Option<&str>) -> EventStream {
        let mut path = Path::to("/events")
            .query("since", since)
            .query("until", until);
        if let Some(kind) = kind {
            path = path.query("filters", json!({"type": [kind]}));
        }
        let is_no_command = |event: &Event| !event.action.starts_with("exec_");
        EventStream::new(self.connector.stream(path), is_no_command)
    }

    /// The events of one container between two times (unix seconds) that the engine remembers,
    /// oldest first, with the timeout `limit`.
    pub(crate) async fn past_events(
        &self,
        container: &ContainerName,
        (since, until): (i64, i64),
        limit: Duration,
    ) -> Result<Vec<Event>, EngineError> {
        let actions: Vec<_> = actions().collect();
        let filters = json!({"type": ["container"], "container": [container], "event": actions});
        let path = Path::to("/events")
            .query("since", since)
            .query("until", until)
            .query("filters", filters);
        let mut events = EventStream::new(self.connector.stream(path), has_effect);
        let read = async {
            let mut past = Vec::new();
            while past.len() < MAX_PAST_EVENTS
                && let Some(event) = events.next().await?
            {
                past.push(event);
            }
            Ok(past)
        };
        within(limit, read).await
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
            let mut events = EventStream::new(stream::iter(chunks).boxed(), has_effect);
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
