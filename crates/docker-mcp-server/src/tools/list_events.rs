//! `list_events`.

use upstream::time::Since;

use super::prelude::*;
use crate::engine::{Event, SHOWN_DETAILS};
use crate::unix_time;

/// The period before now without `since`.
const DEFAULT_AGE: Duration = Duration::from_secs(3_600);
/// Rows without `limit`.
const DEFAULT_ROWS: u32 = 100;

/// List events of containers, images, networks and volumes, oldest first: those of the last 7 days since
/// this server started, at most 500 of each object, and older ones that the engine remembers.
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
    /// Newest rows (default 100; fewer if they are long).
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
    note: Option<String>,
    /// All events since then are known; of older ones, some may be missing.
    complete_since: Option<String>,
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
        let since = self.since.unwrap_or(Since::Ago(DEFAULT_AGE));
        let since = unix_time::from_argument(since);
        let until = self.until.map(unix_time::from_argument);
        let kind = self.kind.map(|kind| format!("{kind:?}").to_lowercase());
        let limit = self.limit.map_or(DEFAULT_ROWS, Bounded::get) as usize;
        let (kind, timeout) = (kind.as_deref(), docker.engine.timeout());
        let mut past = docker
            .past_events((since, until), kind, None, timeout)
            .await;
        if let Some(failure) = past.failure {
            return Err(docker.engine.explain(failure));
        }
        past.events.retain(|event| self.wants(event));
        let dropped = past.events.len().saturating_sub(limit);
        let rows = past.events.get(dropped..).unwrap_or_default();
        let redactor = docker.redactor();
        // Newest first, so that the oldest are omitted.
        let rows = rows.iter().rev().map(|event| {
            let details = SHOWN_DETAILS.iter().filter_map(|&key| {
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
        let (mut events, omitted) = fit(rows.collect());
        events.reverse();
        let omitted = positive(dropped + omitted.unwrap_or(0));
        let oldest = events.first().filter(|_| omitted.is_some());
        Ok(Events {
            note: oldest.map(|at| format!("Pass until: {} for older ones.", at.time)),
            events,
            omitted,
            complete_since: past.complete_since,
        })
    }
}

impl ListEvents {
    fn wants(&self, event: &Event) -> bool {
        let part = self.name.as_deref();
        part.is_none_or(|part| event.name().contains(part))
    }
}
