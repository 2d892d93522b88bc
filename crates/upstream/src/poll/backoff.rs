//! Delays that grow while nothing happens.

use std::time::Duration;

use crate::random;

/// The bounds and the growth of delays.
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

    /// Sets the factor from one delay to the next.
    pub const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Returns the delays, from the first one on.
    pub const fn delays(self) -> Delays {
        Delays {
            backoff: self,
            last: None,
        }
    }
}

/// The state of one retry loop.
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    last: Option<Duration>,
}

impl Delays {
    /// Returns the next delay: longer than the last one, with a jitter of up to a tenth, so that many
    /// clients do not retry at the same time.
    pub fn next_delay(&mut self) -> Duration {
        let Backoff {
            first,
            longest,
            factor,
        } = self.backoff;
        let delay = self.last.map_or(first, |last| last.mul_f64(factor));
        let delay = delay.min(longest);
        self.last = Some(delay);
        delay.mul_f64(1.0 - random::fraction() / 10.0)
    }

    /// Waits for the next delay.
    pub async fn sleep(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// Changes the bounds and the growth of later delays.
    pub(super) fn set_backoff(&mut self, backoff: Backoff) {
        self.backoff = backoff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_longest_until_reset() {
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
