//! The time of the database, which dates what replicas sign: their own clocks may differ by any amount.

use std::time::{Duration, Instant};

use parking_lot::RwLock;

/// The clock of the database, as it was asked last. Without the database it goes on with the monotonic clock of this
/// process, so that changes of the clock of this machine have no effect.
#[derive(Default)]
pub(super) struct DatabaseClock(RwLock<Option<(Instant, Duration)>>);

impl DatabaseClock {
    /// Sets it by the answer to a query that was sent and answered at these times: half of the way is not known.
    pub(super) fn set(&self, sent: Instant, answered: Instant, time: Duration) {
        let between = sent + answered.saturating_duration_since(sent) / 2;
        *self.0.write() = Some((between, time));
    }

    /// Returns the time since 1970 at `now`; `None` until the database was asked.
    pub(super) fn at(&self, now: Instant) -> Option<Duration> {
        let (then, time) = (*self.0.read())?;
        Some(time + now.saturating_duration_since(then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_goes_on_without_the_database() {
        let (clock, start) = (DatabaseClock::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(clock.at(start), None);
        clock.set(start, start + second * 2, second * 1_000);
        assert_eq!(clock.at(start + second), Some(second * 1_000));
        assert_eq!(clock.at(start + second * 3_600), Some(second * 4_599));
        // Another server after a failover.
        clock.set(start + second, start + second, second * 50);
        assert_eq!(clock.at(start + second * 2), Some(second * 51));
    }
}
