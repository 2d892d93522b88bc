//! `list_events`.

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use http::Method;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{fit, short_id};
use crate::Docker;
use crate::engine::{Body, Lines, Path, within};
use crate::policy::Subject;
use crate::when::{Since, rfc3339};

/// Seconds before now, without `since`.
const DEFAULT_AGE: i64 = 3_600;
/// Rows without `limit`, and the bytes of an answer, which has them twice.
const DEFAULT_ROWS: u32 = 100;
const MAX_BYTES: usize = 6_500;
/// Details of an event that say what happened; the rest is labels.
const TOLD: [&str; 7] = [
    "image",
    "exitCode",
    "signal",
    "oldName",
    "container",
    "type",
    "execID",
];

/// List what happened to containers, images, networks and volumes, oldest first. The engine
/// remembers a few hundred events.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListEvents {
    /// An age (`10m`) or an RFC 3339 time; default: an hour ago.
    since: Option<Since>,
    /// Likewise; default: now.
    until: Option<Since>,
    /// Only of this kind.
    kind: Option<EventKind>,
    /// Only of objects whose name contains this.
    name: Option<String>,
    /// Newest rows (default 100).
    limit: Option<Bounded<1, 1000>>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum EventKind {
    Container,
    Image,
    Network,
    Volume,
    Daemon,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Events {
    events: Vec<Row>,
    /// Older rows that do not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
    time: String,
    /// `container`, `image`, …
    kind: String,
    action: String,
    name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "Action")]
    action: String,
    #[serde(rename = "Actor")]
    actor: Actor,
    time: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Actor {
    #[serde(rename = "ID")]
    id: String,
    attributes: BTreeMap<String, String>,
}

impl Tool for ListEvents {
    const NAME: &'static str = "list_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Events;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Events, ToolError> {
        let engine = &docker.engine;
        let now = SystemTime::now();
        let until = match self.until {
            Some(until) => until.unix_seconds(now).to_string(),
            // Whole seconds would leave out what has just happened.
            None => {
                let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
                format!("{}.{:09}", now.as_secs(), now.subsec_nanos())
            }
        };
        let since = self
            .since
            .unwrap_or(Since::Ago(DEFAULT_AGE))
            .unix_seconds(now);
        let mut path = Path::to("/events")
            .query("since", since)
            .query("until", until);
        if let Some(kind) = self.kind {
            path = path.query("filters", json!({"type": [kind]}));
        }
        let limit = self.limit.map_or(DEFAULT_ROWS, Bounded::get) as usize;
        let (mut rows, mut dropped) = (VecDeque::new(), 0);
        let read = async {
            let mut lines = Lines::new(engine.follow(Method::GET, path, Body::None)?);
            while let Some(event) = lines.next::<Event>().await? {
                if !self.wants(docker, &event) {
                    continue;
                }
                if rows.len() == limit {
                    rows.pop_front();
                    dropped += 1;
                }
                rows.push_back(event);
            }
            Ok(())
        };
        let read = within(engine.timeout(), read).await;
        read.map_err(|failure| engine.explain(failure))?;
        let mut redactor = docker.redactor();
        // The newest come first, so that the oldest do not fit.
        let shown = rows.iter().rev().map(|event| Row {
            time: rfc3339(event.time),
            kind: event.kind.clone(),
            action: redactor.text(&event.action),
            name: redactor.text(event.name()),
            details: TOLD
                .iter()
                .filter_map(|key| {
                    let value = event.actor.attributes.get(*key)?;
                    Some(((*key).to_owned(), redactor.value(key, value)))
                })
                .collect(),
        });
        let (mut events, left) = fit(shown.collect(), MAX_BYTES);
        events.reverse();
        let omitted = dropped + left;
        Ok(Events {
            events,
            omitted: (omitted > 0).then_some(omitted),
        })
    }
}

impl ListEvents {
    fn wants(&self, docker: &Docker, event: &Event) -> bool {
        // A health check alone makes three of them every time, with its command line.
        if event.action.starts_with("exec_") {
            return false;
        }
        let part = self.name.as_deref();
        let named = part.is_none_or(|part| event.name().contains(part));
        named && docker.policy.permits(&event.subject())
    }
}

impl Event {
    fn name(&self) -> &str {
        let name = self.actor.attributes.get("name").map(String::as_str);
        name.unwrap_or_else(|| match self.kind.as_str() {
            "container" => short_id(&self.actor.id),
            _ => &self.actor.id,
        })
    }

    /// The attributes of a container are its labels too.
    fn subject(&self) -> Subject<'_> {
        let labels = &self.actor.attributes;
        match &*self.kind {
            "container" => Subject::Container {
                name: self.name(),
                image: labels.get("image").map_or("", String::as_str),
                labels,
            },
            "image" => Subject::Image(self.name()),
            _ => Subject::Object {
                name: self.name(),
                labels,
            },
        }
    }
}
