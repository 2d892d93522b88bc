//! Request counters, which `mcp.getServerInfo` shows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

/// Counts the answered requests of every dialect and transport.
#[derive(Debug, Default)]
pub struct Health {
    successful: AtomicU64,
    failed: AtomicU64,
    microseconds: AtomicU64,
}

/// The counters at one moment (seed 001, `health_metrics`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HealthMetrics {
    /// Requests answered, without the current one. Notifications do not count.
    pub total_requests: u64,
    /// Requests answered with a result that is not an error.
    pub successful_requests: u64,
    /// Requests answered with a JSON-RPC error or an `isError` result.
    pub failed_requests: u64,
    /// Seconds per request, over all of them.
    pub average_response_time: f64,
}

impl Health {
    /// Counts one answered request.
    pub fn record(&self, succeeded: bool, took: Duration) {
        let counter = [&self.failed, &self.successful][usize::from(succeeded)];
        counter.fetch_add(1, Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Relaxed);
    }

    /// The counters now.
    pub fn metrics(&self) -> HealthMetrics {
        let (successful_requests, failed_requests) =
            (self.successful.load(Relaxed), self.failed.load(Relaxed));
        let total_requests = successful_requests + failed_requests;
        let spent = Duration::from_micros(self.microseconds.load(Relaxed)).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "an average")]
        let average_response_time = spent / total_requests.max(1) as f64;
        HealthMetrics {
            total_requests,
            successful_requests,
            failed_requests,
            average_response_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_covers_all_requests() {
        let health = Health::default();
        health.record(true, Duration::from_millis(100));
        health.record(false, Duration::from_millis(300));
        assert_eq!(
            health.metrics(),
            HealthMetrics {
                total_requests: 2,
                successful_requests: 1,
                failed_requests: 1,
                average_response_time: 0.2,
            }
        );
    }
}
