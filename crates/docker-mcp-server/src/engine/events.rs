//! What the engine tells of what happens to its objects: `GET /events`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;

use super::connector::ByteStream;
use super::failure::Failure;
use super::path::Path;
use super::{Engine, within};
use crate::name::ContainerName;

/// Most past events that are kept; the engine itself remembers a few hundred.
const PAST_LIMIT: usize = 1_000;

/// Longest event that is read, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// What has events that are asked for.
const KINDS: [&str; 3] = ["container", "image", "network"];
/// What clients can see the effect of. The engine sends nothing else, above all not the three
/// events of every run of a health check, whose actions carry command lines. `died`, `remove`,
/// `removed` and `rename` are also Podman's.
const ACTIONS: [&str; 25] = [
    "create",
    "start",
    "die",
    "died",
    "oom",
    "kill",
    "stop",
    "restart",
    "pause",
    "unpause",
    "rename",
    "update",
    "destroy",
    "remove",
    "removed",
    "health_status",
    "pull",
    "tag",
    "untag",
    "delete",
    "import",
    "load",
    "commit",
    "connect",
    "disconnect",
];

/// Something that happened.
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

    /// The name of the object, or what it is known by where it has none.
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

    /// All details; the labels of a container are among them.
    pub(crate) fn attributes(&self) -> &BTreeMap<String, String> {
        &self.actor.attributes
    }

    /// Whether the main process of a container ended.
    pub(crate) fn is_death(&self) -> bool {
        matches!(&*self.action, "die" | "died")
    }
}

/// Events, one after the other: one JSON object per line.
pub(crate) struct Events {
    reply: ByteStream,
    /// Bytes of a line that is not complete.
    rest: Vec<u8>,
    is_wanted: fn(&Event) -> bool,
}

impl Events {
    fn new(reply: ByteStream, is_wanted: fn(&Event) -> bool) -> Self {
        Self {
            reply,
            rest: Vec::new(),
            is_wanted,
        }
    }

    /// The next event that is wanted; `None` after the last one. What is no event is skipped.
    /// Errors when the stream breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(event) if (self.is_wanted)(&event) => return Ok(Some(event)),
                    _ => {}
                }
            }
            if self.rest.len() as u64 > MAX_LINE_BYTES {
                return Err(Failure::TooLarge(MAX_LINE_BYTES));
            }
            match self.reply.next().await {
                Some(piece) => self.rest.extend_from_slice(&piece?),
                None => return Ok(None),
            }
        }
    }
}

/// Whether clients can see an effect of it. Not every engine filters as it is told to.
fn has_effect(event: &Event) -> bool {
    ACTIONS.contains(&event.verb())
}

impl Engine {
    /// Everything with an effect that has happened since `since` (unix nanoseconds), as far as the
    /// engine remembers, and then what happens. Ends only with the connection.
    pub(crate) fn events(&self, since: i64) -> Events {
        let filters = json!({"type": KINDS, "event": ACTIONS});
        let (seconds, nanos) = (since / 1_000_000_000, since % 1_000_000_000);
        let path = Path::to("/events")
            .query("filters", filters)
            .query("since", format!("{seconds}.{nanos:09}"));
        Events::new(self.connector.stream(path), has_effect)
    }

    /// All that has happened between two times (unix seconds, with a fraction), to objects of `kind`
    /// where one is given, but for the commands that ran in containers: a health check makes three
    /// such events every time. The caller watches the time.
    pub(crate) fn history(&self, since: i64, until: &str, kind: Option<&str>) -> Events {
        let mut path = Path::to("/events")
            .query("since", since)
            .query("until", until);
        if let Some(kind) = kind {
            path = path.query("filters", json!({"type": [kind]}));
        }
        let is_no_command = |event: &Event| !event.action.starts_with("exec_");
        Events::new(self.connector.stream(path), is_no_command)
    }

    /// What happened to one container between two times (unix seconds), as far as the engine
    /// remembers, oldest first. Asked for at most `limit`.
    pub(crate) async fn past_events(
        &self,
        container: &ContainerName,
        (since, until): (i64, i64),
        limit: Duration,
    ) -> Result<Vec<Event>, Failure> {
        let filters = json!({"type": ["container"], "container": [container], "event": ACTIONS});
        let path = Path::to("/events")
            .query("since", since)
            .query("until", until)
            .query("filters", filters);
        let mut events = Events::new(self.connector.stream(path), has_effect);
        within(limit, async {
            let mut past = Vec::new();
            while let Some(event) = events.next().await? {
                past.push(event);
                if past.len() >= PAST_LIMIT {
                    break;
                }
            }
            Ok(past)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn events_are_read_line_by_line_however_they_are_cut() {
        let stream = concat!(
            r#"{"Type":"container","Action":"die","Actor":{"ID":"ab","Attributes":{"exitCode":"3"}},"time":1,"timeNano":1000000001}"#,
            "\n{\"no\n\n",
            r#"{"Type":"container","Action":"exec_create: sh -c x"}"#,
            "\n",
            r#"{"Type":"container","Action":"health_status: healthy"}"#,
            "\n{\"Type\":\"never ended"
        );
        for size in [1, 7, 4096] {
            let pieces = stream.as_bytes().chunks(size);
            let pieces: Vec<_> = pieces
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            let mut events = Events::new(stream::iter(pieces).boxed(), has_effect);
            let mut seen = Vec::new();
            while let Some(event) = events.next().await.unwrap() {
                seen.push(event);
            }
            let actions: Vec<_> = seen.iter().map(|event| &*event.action).collect();
            assert_eq!(actions, ["die", "health_status: healthy"]);
            assert!(seen[0].is_death() && seen[0].id() == "ab");
            assert_eq!(seen[0].attribute("exitCode"), Some("3"));
        }
    }
}
