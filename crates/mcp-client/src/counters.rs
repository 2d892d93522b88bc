//! What a server did wrong without harm: skipped, and counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was skipped since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Answers that nobody waits for: an id that is unknown, of the wrong type, answered before, or
    /// of a request that was given up.
    pub unmatched_responses: u64,
    /// Lines on stdout, or events of a stream, that are no messages: banners, for example.
    pub invalid_messages: u64,
    /// Lines on stderr that were not handed over because there were too many.
    pub stderr_dropped: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    unmatched_responses: AtomicU64,
    invalid_messages: AtomicU64,
    stderr_dropped: AtomicU64,
}

impl Counting {
    pub(crate) fn unmatched_response(&self) {
        self.unmatched_responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how much there has been before.
    pub(crate) fn invalid_messages(&self) -> u64 {
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
