//! How long to wait before the next try.

use std::time::Duration;

use tokio::time::Instant;

/// So many tries, then somebody has to look.
pub(crate) const TRIES: u32 = 5;
/// A backend that was well for so long starts to count anew.
const HEALTHY: Duration = Duration::from_secs(300);
/// Between two tries to reach a server that is not ours to start.
const LONGEST: Duration = Duration::from_secs(16);

/// Counts the tries of one backend: 1, 2, 4, 8 and 16 s after them, each a fifth more or less, so
/// that backends which fell together do not come back together.
#[derive(Default)]
pub(crate) struct Backoff {
    tries: u32,
    up_since: Option<Instant>,
}

impl Backoff {
    /// The backend can be used.
    pub(crate) fn up(&mut self) {
        self.up_since = Some(Instant::now());
    }

    /// It cannot, or not any more: how long to wait, or `None` when it was tried often enough.
    pub(crate) fn down(&mut self, jitter: f64) -> Option<Duration> {
        let was_healthy = |since: Instant| since.elapsed() >= HEALTHY;
        if self.up_since.take().is_some_and(was_healthy) {
            self.tries = 0;
        }
        if self.tries >= TRIES {
            return None;
        }
        let wait = Duration::from_secs(1 << self.tries);
        self.tries += 1;
        Some(wait.mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0)))
    }

    /// The same for a server that somebody else starts: it is tried for ever.
    pub(crate) fn down_elsewhere(&mut self, jitter: f64) -> Duration {
        self.down(jitter).unwrap_or(LONGEST)
    }

    /// Tries since it was last well.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Starts to count anew: somebody has looked.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(backoff: &mut Backoff) -> Option<u64> {
        backoff.down(0.5).map(|wait| wait.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_and_end() {
        let mut backoff = Backoff::default();
        for expected in [1, 2, 4, 8, 16] {
            assert_eq!(seconds(&mut backoff), Some(expected));
            backoff.up();
        }
        assert_eq!(seconds(&mut backoff), None);
        assert_eq!(backoff.down_elsewhere(0.5), LONGEST);
        backoff.reset();
        assert_eq!(seconds(&mut backoff), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn five_good_minutes_are_forgiveness() {
        let mut backoff = Backoff::default();
        assert_eq!(seconds(&mut backoff), Some(1));
        backoff.up();
        tokio::time::advance(Duration::from_secs(299)).await;
        assert_eq!(seconds(&mut backoff), Some(2));
        backoff.up();
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(seconds(&mut backoff), Some(1));
    }

    #[test]
    fn jitter_is_a_fifth() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.down(0.0), Some(Duration::from_millis(800)));
        assert_eq!(backoff.down(1.0), Some(Duration::from_millis(2400)));
    }
}
