//! What calls to one backend have come to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of durations: each is a quarter longer than the one before, from 10 µs to over an hour.
const BUCKETS: usize = 96;
const FIRST: f64 = 10e-6;
const GROWTH: f64 = 1.25;

/// Counters that calls share without waiting for each other.
pub(crate) struct Figures {
    pub(crate) calls: AtomicU64,
    /// Calls that ended without a result, or with one that says so.
    pub(crate) errors: AtomicU64,
    /// Starts after the first.
    pub(crate) restarts: AtomicU64,
    /// Answers that nobody waited for, and what was no message, of processes that have ended.
    pub(super) strays: AtomicU64,
    pub(super) noise: AtomicU64,
    durations: [AtomicU64; BUCKETS],
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            calls: AtomicU64::default(),
            errors: AtomicU64::default(),
            restarts: AtomicU64::default(),
            strays: AtomicU64::default(),
            noise: AtomicU64::default(),
            durations: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl Figures {
    /// A call has ended.
    pub(crate) fn record(&self, succeeded: bool, took: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !succeeded {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.durations[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// The duration in milliseconds that `share` of the calls did not exceed, to a quarter of it;
    /// `None` before the first call.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let counts = || {
            self.durations
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
        };
        let total: u64 = counts().sum();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among the calls"
        )]
        let rank = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let at = counts().position(|count| {
            seen += count;
            seen >= rank.max(1)
        })?;
        let exponent = i32::try_from(at).unwrap_or(i32::MAX);
        let millis = FIRST * GROWTH.powi(exponent) * 1e3;
        Some((millis * 1e3).round() / 1e3)
    }
}

/// The first bucket that is not shorter.
fn bucket(took: Duration) -> usize {
    let steps = (took.as_secs_f64() / FIRST).max(1.0).log(GROWTH).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and small"
    )]
    let steps = steps as usize;
    steps.min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close() {
        let figures = Figures::default();
        assert_eq!(figures.quantile(0.5), None);
        for millis in 1..=100 {
            figures.record(millis != 7, Duration::from_millis(millis));
        }
        let (half, most) = (
            figures.quantile(0.5).unwrap(),
            figures.quantile(0.99).unwrap(),
        );
        assert!((50.0..63.0).contains(&half), "{half}");
        assert!((99.0..125.0).contains(&most), "{most}");
        assert_eq!(figures.errors.load(Ordering::Relaxed), 1);
        figures.record(true, Duration::from_secs(1_000_000));
        figures.record(true, Duration::ZERO);
    }
}
