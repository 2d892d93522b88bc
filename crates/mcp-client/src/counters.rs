//! Counters of server faults that are skipped because they do no harm.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of skipped messages since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Responses without a waiting request: the id is unknown, of the wrong type, already answered, or
    /// that of a cancelled request.
    pub unmatched_responses: u64,
    /// Lines on stdout, or events of a stream, that are not JSON-RPC messages: banners, for example.
    pub invalid_messages: u64,
    /// Lines on stderr that were dropped by the rate limit.
    pub stderr_dropped: u64,
}

/// [`Counters`] that can be incremented from many tasks.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounters {
    unmatched_responses: AtomicU64,
    invalid_messages: AtomicU64,
    stderr_dropped: AtomicU64,
}

impl AtomicCounters {
    pub(crate) fn unmatched_response(&self) {
        self.unmatched_responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the previous number.
    pub(crate) fn invalid_message(&self) -> u64 {
        self.invalid_messages.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn stderr_dropped(&self) {
        self.stderr_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            unmatched_responses: self.unmatched_responses.load(Ordering::Relaxed),
            invalid_messages: self.invalid_messages.load(Ordering::Relaxed),
            stderr_dropped: self.stderr_dropped.load(Ordering::Relaxed),
        }
    }
}
