//! What a server did wrong without harm: skipped, and counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was skipped since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Answers that nobody waits for: an id that is unknown, of the wrong type, answered before, or
    /// of a request that was given up.
    pub stray_answers: u64,
    /// Lines on stdout, or events of a stream, that are no messages: banners, for example.
    pub noise: u64,
    /// Lines on stderr that were not handed over because there were too many.
    pub stderr_dropped: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    stray_answers: AtomicU64,
    noise: AtomicU64,
    stderr_dropped: AtomicU64,
}

impl Counting {
    pub(crate) fn stray_answer(&self) {
        self.stray_answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how much there has been before.
    pub(crate) fn noise(&self) -> u64 {
        self.noise.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn stderr_dropped(&self) {
        self.stderr_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            stray_answers: self.stray_answers.load(Ordering::Relaxed),
            noise: self.noise.load(Ordering::Relaxed),
            stderr_dropped: self.stderr_dropped.load(Ordering::Relaxed),
        }
    }
}
