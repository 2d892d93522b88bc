//! Counters, durations and quantiles of the requests to one backend.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::Counters;
use mcp_core::metrics::Labels;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

/// Metrics of one backend.
#[derive(Default)]
pub(crate) struct BackendMetrics {
    pub(crate) calls: Counter,
    /// Calls that ended without a result, or with an error result.
    pub(crate) errors: Counter,
    /// Starts after the first.
    pub(crate) restarts: Counter,
    /// Skipped and refused messages of earlier connections.
    pub(super) earlier: Mutex<Counters>,
    /// The durations that `gateway_status` and the page show in short.
    pub(crate) quantiles: Quantiles,
    /// The tools with durations of their own in `/metrics`.
    pub(crate) labels: Labels,
    /// Requests that wait for a free place.
    pub(crate) waiting: AtomicUsize,
}

impl BackendMetrics {
    /// Counts a call that has ended.
    pub(crate) fn record(&self, succeeded: bool, took: Duration) {
        self.calls.inc();
        if !succeeded {
            self.errors.inc();
        }
        self.quantiles.record(took);
    }
}

/// Buckets of durations: the bound of each is 1.25 times the one before, from 10 µs to over an hour.
const BUCKETS: usize = 96;
const FIRST_BUCKET: f64 = 10e-6;
const GROWTH: f64 = 1.25;

/// A lock-free histogram, fine enough for quantiles.
pub(crate) struct Quantiles {
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Quantiles {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl Quantiles {
    fn record(&self, took: Duration) {
        self.buckets[bucket_of(took)].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed))
    }

    /// Returns the duration in milliseconds that the fraction `share` of the calls did not exceed,
    /// at most 25 % too high; `None` before the first call.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among the calls"
        )]
        let rank = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let at = counts.iter().position(|count| {
            seen += count;
            seen >= rank.max(1)
        })?;
        Some((bound_of(at) * 1e6).round() / 1e3)
    }
}

/// Returns the upper bound of a bucket, in seconds.
fn bound_of(bucket: usize) -> f64 {
    FIRST_BUCKET * GROWTH.powi(i32::try_from(bucket).unwrap_or(i32::MAX))
}

/// Returns the first bucket whose bound is not below a duration.
fn bucket_of(took: Duration) -> usize {
    let steps = (took.as_secs_f64() / FIRST_BUCKET)
        .max(1.0)
        .log(GROWTH)
        .ceil();
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
        let metrics = BackendMetrics::default();
        let quantile = |share| metrics.quantiles.quantile(share);
        assert_eq!(quantile(0.5), None);
        for millis in 1..=100 {
            metrics.record(millis != 7, Duration::from_millis(millis));
        }
        let (half, most) = (quantile(0.5).unwrap(), quantile(0.99).unwrap());
        assert!((50.0..63.0).contains(&half), "{half}");
        assert!((99.0..125.0).contains(&most), "{most}");
        assert_eq!(metrics.errors.get(), 1);
        metrics.record(true, Duration::from_secs(1_000_000));
        metrics.record(true, Duration::ZERO);
    }
}
