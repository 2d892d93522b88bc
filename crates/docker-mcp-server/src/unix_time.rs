//! Unix seconds, the engine's unit of time.

use upstream::time::{Since, Timestamp, parse_timestamp};

/// The unix seconds of a caller's argument; never negative.
pub(crate) fn from_argument(since: Since) -> i64 {
    since.from(Timestamp::now()).as_second().max(0)
}

pub(crate) fn now() -> i64 {
    Timestamp::now().as_second()
}

/// The unix seconds of a timestamp that the engine has written.
pub(crate) fn from_timestamp(text: &str) -> Option<i64> {
    parse_timestamp(text).map(Timestamp::as_second)
}
