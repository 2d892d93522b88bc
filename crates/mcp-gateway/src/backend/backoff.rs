//! Exponential backoff between the starts of a backend.

use std::time::Duration;

use tokio::time::Instant;

/// Tries before the operator has to start it.
pub(crate) const MAX_START_TRIES: u32 = 5;
/// A backend that ran for this time starts again with the shortest delay.
const RESET_AFTER: Duration = Duration::from_secs(300);
/// The longest delay for a remote server, which the gateway cannot start.
const MAX_REMOTE_DELAY: Duration = Duration::from_secs(16);

/// Counts the tries of one backend. The delays are 1, 2, 4, 8 and 16 s, each with 20 % jitter, so
/// that backends which failed together are not started together.
#[derive(Default)]
pub(crate) struct Backoff {
    tries: u32,
    up_since: Option<Instant>,
}

impl Backoff {
    /// Notes that the backend runs.
    pub(crate) fn on_running(&mut self) {
        self.up_since = Some(Instant::now());
    }

    /// Returns the delay before the next try, or `None` after the last one. `jitter` is between 0 and 1.
    pub(crate) fn next_delay(&mut self, jitter: f64) -> Option<Duration> {
        let is_long = |since: Instant| since.elapsed() >= RESET_AFTER;
        if self.up_since.take().is_some_and(is_long) {
            self.tries = 0;
        }
        if self.tries >= MAX_START_TRIES {
            return None;
        }
        let delay = Duration::from_secs(1 << self.tries);
        self.tries += 1;
        Some(delay.mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0)))
    }

    /// The same for a remote server, with no limit of tries.
    pub(crate) fn next_remote_delay(&mut self, jitter: f64) -> Duration {
        self.next_delay(jitter).unwrap_or(MAX_REMOTE_DELAY)
    }

    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Starts again with the shortest delay.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(backoff: &mut Backoff) -> Option<u64> {
        backoff.next_delay(0.5).map(|delay| delay.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn delays_double_and_end() {
        let mut backoff = Backoff::default();
        for expected in [1, 2, 4, 8, 16] {
            assert_eq!(seconds(&mut backoff), Some(expected));
            backoff.on_running();
        }
        assert_eq!(seconds(&mut backoff), None);
        assert_eq!(backoff.next_remote_delay(0.5), MAX_REMOTE_DELAY);
        backoff.reset();
        assert_eq!(seconds(&mut backoff), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_resets_after_5_minutes() {
        let mut backoff = Backoff::default();
        assert_eq!(seconds(&mut backoff), Some(1));
        backoff.on_running();
        tokio::time::advance(Duration::from_secs(299)).await;
        assert_eq!(seconds(&mut backoff), Some(2));
        backoff.on_running();
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(seconds(&mut backoff), Some(1));
    }

    #[test]
    fn jitter_is_20_percent() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next_delay(0.0), Some(Duration::from_millis(800)));
        assert_eq!(backoff.next_delay(1.0), Some(Duration::from_millis(2400)));
    }
}
