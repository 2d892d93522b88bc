//! Which events are wanted.

use upstream::time::Timestamp;

use super::event::Status;
use super::trace::TraceId;

/// Events that one query returns at most.
pub(crate) const MAX_LIMIT: usize = 1_000;

/// A query. What is `None` matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// Only those of this request.
    pub(crate) trace_id: Option<TraceId>,
    /// Only those of this type, exactly.
    pub(crate) event_type: Option<String>,
    /// Only those with this status.
    pub(crate) status: Option<Status>,
    /// Only those from then on.
    pub(crate) since: Option<Timestamp>,
    /// How many: the newest ones that match, in the order in which they happened. At most
    /// [`MAX_LIMIT`], whatever it says here.
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
    /// The limit that holds.
    pub(super) fn limit(&self) -> usize {
        self.limit.min(MAX_LIMIT)
    }
}
