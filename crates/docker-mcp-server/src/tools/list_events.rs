//! `list_events`.

use std::collections::VecDeque;

use upstream::time::{Since, Timestamp};

use super::prelude::*;
use crate::engine::{Event, within};
use crate::unix_time;

/// The period before now without `since`.
const DEFAULT_AGE: Duration = Duration::from_secs(3_600);
/// Rows without `limit`, and bytes of rows in an answer, which contains them twice.
const DEFAULT_ROWS: u32 = 100;
const MAX_BYTES: usize = 6_500;
/// Details of an event that are shown; the others are labels.
const SHOWN_DETAILS: &str = "image exitCode signal oldName container type execID";

/// List events of containers, images, networks and volumes, oldest first. The engine
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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Events {
    events: Vec<EventRow>,
    /// Older rows that do not fit.
    omitted: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct EventRow {
    time: String,
    /// `container`, `image`, …
    kind: String,
    action: String,
    name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<String, String>,
}

impl Tool for ListEvents {
    const NAME: &'static str = "list_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Events;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Events, ToolError> {
        let engine = &docker.engine;
        let until = match self.until {
            Some(until) => unix_time::from_argument(until).to_string(),
            // Whole seconds would exclude the newest events.
            None => {
                let now = Timestamp::now();
                format!("{}.{:09}", now.as_second(), now.subsec_nanosecond())
            }
        };
        let since = self.since.unwrap_or(Since::Ago(DEFAULT_AGE));
        let since = unix_time::from_argument(since);
        let kind = self.kind.map(|kind| format!("{kind:?}").to_lowercase());
        let limit = self.limit.map_or(DEFAULT_ROWS, Bounded::get) as usize;
        let (mut rows, mut dropped) = (VecDeque::new(), 0);
        let read = async {
            let mut events = engine.history(since, &until, kind.as_deref());
            while let Some(event) = events.next().await? {
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
        let read = within(engine.timeout, read).await;
        read.map_err(|failure| engine.explain(failure))?;
        let redactor = docker.redactor();
        // Newest first, so that the oldest are omitted.
        let rows = rows.iter().rev().map(|event| {
            let details = SHOWN_DETAILS.split(' ').filter_map(|key| {
                let value = event.attribute(key)?;
                Some((key.to_owned(), redactor.named(key, value)))
            });
            EventRow {
                time: rfc3339(event.time),
                kind: event.kind.clone(),
                action: redactor.text(&event.action),
                name: redactor.text(event.name()),
                details: details.collect(),
            }
        });
        let (mut events, omitted) = fit(rows.collect(), MAX_BYTES);
        events.reverse();
        let omitted = positive(dropped + omitted.unwrap_or(0));
        Ok(Events { events, omitted })
    }
}

impl ListEvents {
    fn wants(&self, docker: &Docker, event: &Event) -> bool {
        let part = self.name.as_deref();
        let named = part.is_none_or(|part| event.name().contains(part));
        named && docker.may_see_event(event)
    }
}
