//! Which events are wanted.

use upstream::time::Timestamp;

use super::event::Status;
use super::trace::TraceId;

/// Events that one query returns at most.
pub const MAX_LIMIT: usize = 1_000;

/// A query. What is `None` matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Only those of this request.
    pub trace_id: Option<TraceId>,
    /// Only those of this type, exactly.
    pub event_type: Option<String>,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those from then on.
    pub since: Option<Timestamp>,
    /// How many: the newest ones that match, in the order in which they happened. At most
    /// [`MAX_LIMIT`], whatever it says here.
    pub limit: usize,
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
    /// Only events of this request.
    #[must_use]
    pub fn with_trace(self, trace_id: TraceId) -> Self {
        Self {
            trace_id: Some(trace_id),
            ..self
        }
    }

    /// Only events of this type.
    #[must_use]
    pub fn with_type(self, event_type: &str) -> Self {
        Self {
            event_type: Some(event_type.to_owned()),
            ..self
        }
    }

    /// Only events with this status.
    #[must_use]
    pub fn with_status(self, status: Status) -> Self {
        Self {
            status: Some(status),
            ..self
        }
    }

    /// Only events from then on.
    #[must_use]
    pub fn with_since(self, since: Timestamp) -> Self {
        Self {
            since: Some(since),
            ..self
        }
    }

    /// At most so many.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The limit that holds.
    pub(super) fn limit(&self) -> usize {
        self.limit.min(MAX_LIMIT)
    }
}
