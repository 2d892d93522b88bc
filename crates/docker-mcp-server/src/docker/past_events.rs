//! Past events: what this server recorded, and what the engine still remembers.

use std::time::Duration;

use serde_json::json;
use upstream::time::{Timestamp, rfc3339};

use super::Docker;
use crate::engine::{EngineError, Event, within};

/// Events of a period.
#[derive(Debug, Default)]
pub(crate) struct PastEvents {
    /// Oldest first.
    pub(crate) events: Vec<Event>,
    /// Since then all are known, with RFC 3339; of those before, some may be missing.
    pub(crate) complete_since: Option<String>,
    /// The reason why the engine's own memory is missing here.
    pub(crate) failure: Option<EngineError>,
}

impl Docker {
    /// The visible events between two times (unix seconds; until now by default), of objects of `kind`,
    /// of the container with the id `container`, with the timeout `limit` for the engine.
    pub(crate) async fn past_events(
        &self,
        (since, until): (i64, Option<i64>),
        kind: Option<&str>,
        container: Option<&str>,
        limit: Duration,
    ) -> PastEvents {
        let mut filters = json!({});
        if let Some(kind) = kind {
            filters["type"] = json!([kind]);
        }
        if let Some(container) = container {
            filters["container"] = json!([container]);
        }
        // Whole seconds would exclude the newest events, and a time to come would delay the reply.
        let now = Timestamp::now();
        let end = match until {
            Some(until) if until <= now.as_second() => until.to_string(),
            _ => format!("{}.{:09}", now.as_second(), now.subsec_nanosecond()),
        };
        let asked = within(limit, self.engine.past_events((since, &end), filters)).await;
        let (mut events, complete_since) = self.history.select(|event| {
            event.time >= since
                && until.is_none_or(|until| event.time < until)
                && kind.is_none_or(|kind| event.kind == kind)
                && container.is_none_or(|id| event.id() == id)
        });
        let failure = match asked {
            Ok(past) => {
                events.extend(past.into_iter().filter(|event| self.may_see_event(event)));
                None
            }
            Err(failure) => Some(failure),
        };
        let key = |event: &Event| (event.nanos(), event.id().to_owned(), event.action.clone());
        events.sort_by_cached_key(key);
        events.dedup_by_key(|event| key(event));
        PastEvents {
            events,
            complete_since: complete_since.map(|nanos| rfc3339(nanos / 1_000_000_000)),
            failure,
        }
    }
}
