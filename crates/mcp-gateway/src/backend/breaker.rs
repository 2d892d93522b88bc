//! A backend that does not answer is not asked for a while.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// So many failures of the transport in a row open it.
const FAILURES: u32 = 5;
/// How long it stays open before one call may try.
const OPEN: Duration = Duration::from_secs(30);

/// Closed while calls come through, open while they do not, and half open while one tries.
///
/// Only what says something about the way to the backend counts: an error that the backend has
/// answered with is an answer.
#[derive(Default)]
pub(crate) struct Breaker(Mutex<Circuit>);

#[derive(Default)]
struct Circuit {
    failures: u32,
    /// When the next call may try; `None` while closed.
    open_until: Option<Instant>,
}

impl Breaker {
    /// Lets a call pass, or says how long none will. After that time one call passes, and the others
    /// wait for what becomes of it.
    pub(crate) fn enter(&self) -> Result<(), Duration> {
        let mut circuit = self.0.lock();
        let Some(until) = circuit.open_until else {
            return Ok(());
        };
        let now = Instant::now();
        if now < until {
            return Err(until - now);
        }
        circuit.open_until = Some(now + OPEN);
        Ok(())
    }

    /// A call came through.
    pub(crate) fn succeeded(&self) {
        *self.0.lock() = Circuit::default();
    }

    /// The way to the backend failed. True if that has opened the circuit.
    pub(crate) fn failed(&self) -> bool {
        let mut circuit = self.0.lock();
        circuit.failures += 1;
        if circuit.failures < FAILURES {
            return false;
        }
        let was_closed = circuit.open_until.is_none();
        circuit.open_until = Some(Instant::now() + OPEN);
        was_closed
    }

    /// How long no call will pass; `None` while closed.
    pub(crate) fn open_for(&self) -> Option<Duration> {
        let until = self.0.lock().open_until?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_open_it_and_one_call_tries_later() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            assert!(!breaker.failed());
        }
        breaker.succeeded();
        for _ in 0..4 {
            assert!(!breaker.failed());
        }
        assert!(breaker.enter().is_ok());
        assert!(breaker.failed());
        assert_eq!(breaker.enter(), Err(OPEN));
        tokio::time::advance(OPEN).await;
        assert!(breaker.enter().is_ok());
        assert!(breaker.enter().is_err(), "one at a time");
        assert!(!breaker.failed(), "it was open already");
        tokio::time::advance(OPEN).await;
        assert!(breaker.enter().is_ok());
        breaker.succeeded();
        assert!(breaker.enter().is_ok() && breaker.open_for().is_none());
    }
}
