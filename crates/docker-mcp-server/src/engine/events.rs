//! Events of the engine's objects: `GET /events`, and those since this server started. The engine itself keeps 256, and
//! every run of a health check makes three of them: on a usual host it has forgotten a kill after two minutes.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::engine::connector::{ByteStream, Lines};
use crate::engine::error::EngineError;

/// The kinds of objects whose events are requested.
pub(super) const KINDS: [&str; 5] = ["container", "image", "network", "volume", "daemon"];
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
pub(crate) struct EventStream(Lines);

impl EventStream {
    pub(super) fn new(reply: ByteStream) -> Self {
        Self(Lines::new(reply))
    }

    /// The next event with an effect; `None` after the last one. Skips invalid lines.
    /// Errors when the stream breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, EngineError> {
        while let Some(line) = self.0.next().await? {
            match serde_json::from_slice(&line) {
                Ok(event) if has_effect(&event) => return Ok(Some(event)),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Whether clients can see its effect. Checked here too, since some engines ignore the filter.
fn has_effect(event: &Event) -> bool {
    actions().any(|action| action == event.verb())
}

pub(super) fn actions() -> impl Iterator<Item = &'static str> {
    ACTIONS.split(' ')
}

/// Most events, and their age in seconds. A trimmed event takes about 500 bytes.
const MAX_EVENTS: usize = 10_000;
const MAX_AGE_SECONDS: i64 = 7 * 24 * 3600;
/// Most events of one object: a crash loop makes three per second and must not push out the others.
const MAX_EVENTS_OF_ONE: usize = 500;

/// Recorded events without their labels, oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    events: VecDeque<Event>,
    /// Unix nanoseconds; nothing is missing since then, except older events of `full` objects.
    complete_since: Option<i64>,
    /// The last event that was dropped of each object that had too many.
    full: Vec<Event>,
    /// Unix seconds at which the engine went away.
    lost: Option<i64>,
}

impl History {
    /// Notes that the events before `nanos` may be incomplete.
    pub(crate) fn begin(&self, nanos: i64) {
        self.with(|recorded| recorded.complete_since = Some(nanos));
    }

    /// Notes that the engine went away.
    pub(crate) fn lose(&self, seconds: i64) {
        self.with(|recorded| recorded.lost = Some(seconds));
    }

    /// When the engine went away, the last time.
    pub(crate) fn lost(&self) -> Option<i64> {
        self.with(|recorded| recorded.lost)
    }

    /// Adds an event. Leaves out a health check with the same result as before.
    pub(crate) fn record(&self, event: &Event) {
        self.with(|recorded| recorded.push(event.trimmed()));
    }

    /// The events that pass `wanted`, oldest first, and the unix nanoseconds since when all are known.
    pub(crate) fn select(&self, wanted: impl Fn(&Event) -> bool) -> (Vec<Event>, Option<i64>) {
        self.with(|recorded| {
            let events = recorded.events.iter().filter(|event| wanted(event));
            let dropped = recorded.full.iter().filter(|event| wanted(event));
            let complete_since = dropped.map(|event| event.nanos() + 1).max();
            let complete_since = recorded.complete_since.max(complete_since);
            (events.cloned().collect(), complete_since)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Recorded) -> T) -> T {
        work(&mut self.0.lock())
    }
}

impl Recorded {
    fn push(&mut self, event: Event) {
        let same = |other: &&Event| other.id() == event.id() && other.kind == event.kind;
        if event.verb() == "health_status" {
            let mut known = self.events.iter().rev().filter(same);
            let last = known.find(|other| other.verb() == "health_status");
            if last.is_some_and(|last| last.action == event.action) {
                return;
            }
        }
        let oldest = self.events.iter().position(|other| same(&other));
        if self.events.iter().filter(same).count() >= MAX_EVENTS_OF_ONE
            && let Some(dropped) = oldest.and_then(|at| self.events.remove(at))
        {
            self.full.retain(|other| !same(&other));
            self.full.push(dropped);
        }
        let too_old = event.time - MAX_AGE_SECONDS;
        self.events.push_back(event);
        while let Some(first) = self.events.front()
            && (self.events.len() > MAX_EVENTS || first.time < too_old)
        {
            self.complete_since = self.complete_since.max(Some(first.nanos() + 1));
            self.events.pop_front();
        }
        let known = self.complete_since;
        self.full.retain(|dropped| Some(dropped.nanos()) >= known);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{StreamExt as _, stream};
    use serde_json::json;

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

    const SECOND: i64 = 1_000_000_000;

    fn history(events: impl IntoIterator<Item = (String, &'static str, i64)>) -> History {
        let history = History::default();
        history.begin(5);
        for (id, action, time) in events {
            let labels = json!({"name": id, "exitCode": "3", "secret.label": "canary"});
            let event = json!({"Type": "container", "Action": action, "time": time,
                "timeNano": time * SECOND, "Actor": {"ID": id, "Attributes": labels}});
            history.record(&serde_json::from_value(event).unwrap());
        }
        history
    }

    #[test]
    fn history_is_bounded_and_says_from_when_on_it_is_complete() {
        let of = |history: &History, id: &str| history.select(|event| event.id() == id);
        let loops = (0..2_000).map(|time| ("loop".to_owned(), "die", time));
        let web = ["health_status: healthy", "health_status: healthy", "kill"];
        let web = web.into_iter().zip(2_001..);
        let web = web.map(|(action, time)| ("web".to_owned(), action, time));
        let one_loops = history(loops.clone().chain(web.clone()));
        let (events, since) = of(&one_loops, "loop");
        let first_known = 2_000 - MAX_EVENTS_OF_ONE as i64;
        assert_eq!(
            (events.len(), events[0].time),
            (MAX_EVENTS_OF_ONE, first_known)
        );
        assert_eq!(
            since,
            Some((first_known - 1) * SECOND + 1),
            "older ones were dropped"
        );
        let (events, since) = of(&one_loops, "web");
        let actions: Vec<_> = events.iter().map(|event| &*event.action).collect();
        assert_eq!(actions, ["health_status: healthy", "kill"]);
        assert_eq!(since, Some(5), "none of this one was dropped");
        assert_eq!(events[1].attributes().len(), 2, "labels are not kept");

        let many = (0..MAX_EVENTS).map(|number| (number.to_string(), "die", 3_000));
        let many = loops.chain(web).chain(many).collect::<Vec<_>>();
        let full = history(many.clone());
        let all = full.select(|_| true).0.len();
        assert_eq!((of(&full, "web").0.len(), all), (0, MAX_EVENTS));
        assert_eq!(of(&full, "loop").1, Some(2_003 * SECOND + 1));
        let late = ("late".to_owned(), "die", 3_001 + MAX_AGE_SECONDS);
        let late = history(many.into_iter().chain([late]));
        assert_eq!(late.select(|_| true).0.len(), 1);
    }
}
