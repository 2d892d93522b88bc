//! A circuit breaker: a backend that does not answer gets no requests for a while. Each process or session
//! of a backend has its own, so that one caller's does not cut off the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Transport failures in a row that open the circuit.
const MAX_FAILURES: u32 = 5;
/// The time until an open circuit lets one call try.
const OPEN_TIME: Duration = Duration::from_secs(30);

/// Closed while calls succeed, open while they fail, and half open while one call tries.
///
/// Only transport failures count: an error that the backend has answered with is an answer.
#[derive(Default)]
pub(crate) struct CircuitBreaker {
    state: Mutex<BreakerState>,
    /// True while a probe runs after a timeout.
    is_probed: AtomicBool,
}

#[derive(Default)]
struct BreakerState {
    failures: u32,
    /// The time of the next try; `None` while closed.
    open_until: Option<Instant>,
}

impl CircuitBreaker {
    /// Lets a call pass, or returns the time until the next try. Then one call passes, and the others
    /// are rejected until it has ended.
    pub(crate) fn enter(&self) -> Result<(), Duration> {
        let mut state = self.state.lock();
        let Some(until) = state.open_until else {
            return Ok(());
        };
        let now = Instant::now();
        if now < until {
            return Err(until - now);
        }
        state.open_until = Some(now + OPEN_TIME);
        Ok(())
    }

    /// Closes the circuit: the backend has answered.
    pub(crate) fn succeeded(&self) {
        *self.state.lock() = BreakerState::default();
    }

    /// Counts a transport failure. Returns true if that has opened the circuit.
    pub(crate) fn failed(&self) -> bool {
        let mut state = self.state.lock();
        state.failures += 1;
        if state.failures < MAX_FAILURES {
            return false;
        }
        let was_closed = state.open_until.is_none();
        state.open_until = Some(Instant::now() + OPEN_TIME);
        was_closed
    }

    /// Begins a probe. Returns false if one runs.
    pub(crate) fn begin_probe(&self) -> bool {
        !self.is_probed.swap(true, Ordering::Relaxed)
    }

    /// Ends the probe.
    pub(crate) fn end_probe(&self) {
        self.is_probed.store(false, Ordering::Relaxed);
    }

    /// The time until the next try; `None` while closed.
    pub(crate) fn open_for(&self) -> Option<Duration> {
        let until = self.state.lock().open_until?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn circuit_opens_after_five_failures_and_lets_one_call_try_later() {
        let breaker = CircuitBreaker::default();
        for _ in 0..2 {
            breaker.succeeded();
            for _ in 0..4 {
                assert!(!breaker.failed());
            }
        }
        assert!(breaker.enter().is_ok());
        assert!(breaker.failed());
        assert_eq!(breaker.enter(), Err(OPEN_TIME));
        tokio::time::advance(OPEN_TIME).await;
        assert!(breaker.enter().is_ok());
        assert!(breaker.enter().is_err(), "one at a time");
        assert!(!breaker.failed(), "it was open already");
        tokio::time::advance(OPEN_TIME).await;
        assert!(breaker.enter().is_ok());
        breaker.succeeded();
        assert!(breaker.enter().is_ok() && breaker.open_for().is_none());
    }
}
