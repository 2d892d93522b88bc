//! Delays that grow while nothing happens.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The bounds of the delays, and how fast they grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    factor: f64,
}

impl Backoff {
    /// Delays that double, from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            factor: 2.0,
        }
    }

    /// The same with another growth from one delay to the next.
    pub const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The delays, from the first one on.
    pub const fn delays(self) -> Delays {
        Delays {
            backoff: self,
            last: None,
        }
    }
}

/// The delays of one thing that is tried again and again.
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    last: Option<Duration>,
}

impl Delays {
    /// The next delay: longer than the last one, and up to a tenth shorter than the backoff says, so
    /// that many who wait do not come back at once.
    pub fn next_delay(&mut self) -> Duration {
        let Backoff {
            first,
            longest,
            factor,
        } = self.backoff;
        let delay = self.last.map_or(first, |last| last.mul_f64(factor));
        let delay = delay.min(longest);
        self.last = Some(delay);
        delay.mul_f64(1.0 - f64::from(random()) / f64::from(u16::MAX) / 10.0)
    }

    /// Waits for the next delay.
    pub async fn sleep(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }

    /// Begins again with the first delay.
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// Goes on within other bounds.
    pub(super) fn set_backoff(&mut self, backoff: Backoff) {
        self.backoff = backoff;
    }
}

/// Each state has keys of its own, which is as random as it takes.
fn random() -> u16 {
    let [low, high, ..] = RandomState::new().hash_one(()).to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_longest_and_begin_again() {
        let seconds = Duration::from_secs;
        let mut delays = Backoff::new(seconds(1), seconds(5)).delays();
        for expected in [1, 2, 4, 5, 5] {
            let delay = delays.next_delay();
            let shortest = seconds(expected) - Duration::from_millis(100 * expected);
            assert!((shortest..=seconds(expected)).contains(&delay), "{delay:?}");
        }
        delays.reset();
        assert!(delays.next_delay() <= seconds(1));
        delays.set_backoff(Backoff::new(seconds(1), seconds(60)).with_factor(20.0));
        assert!(delays.next_delay() >= seconds(18));
    }
}
