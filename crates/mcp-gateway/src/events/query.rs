//! Queries of the event log.

use upstream::time::Timestamp;

use super::event::EventStatus;
use super::trace::TraceId;

/// Limit for the events of one query.
pub(crate) const MAX_LIMIT: usize = 1_000;

/// A query. A filter that is `None` matches all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) trace_id: Option<TraceId>,
    /// The exact type.
    pub(crate) event_type: Option<String>,
    pub(crate) status: Option<EventStatus>,
    /// The earliest time.
    pub(crate) since: Option<Timestamp>,
    /// Number of events: the newest ones that match. Never more than [`MAX_LIMIT`].
    pub(crate) limit: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            trace_id: None,
            event_type: None,
            status: None,
            since: None,
            limit: 100,
        }
    }
}

impl Query {
    pub(super) fn limit(&self) -> usize {
        self.limit.min(MAX_LIMIT)
    }
}
