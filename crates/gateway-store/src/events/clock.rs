//! The clock of the retention, which does not follow a jump of the system's clock.

use std::time::{Duration, Instant};

use upstream::time::Timestamp;

/// No event is older: 2000-01-01, in seconds.
const EARLIEST_TIME_S: i64 = 946_684_800;

/// Limit of what a start adds to the time in the store.
const MAX_START_ADVANCE: Duration = Duration::from_secs(24 * 3600);

/// The time by which events are removed for their age.
///
/// A wrong clock, for example years ahead after a start without a battery, would otherwise remove all
/// events at once. This one starts at the time of the newest event, but at most a day after its time in the
/// store, and advances at most at twice the speed of the monotonic clock. So a start with a wrong clock costs a
/// day of the oldest events and an hour of it two hours, while a pause is caught up. The time of the newest
/// event alone would not do: after a start with a wrong clock it is wrong, too.
pub(super) struct RetentionClock {
    time: Timestamp,
    read_at: Instant,
}

impl RetentionClock {
    /// Starts the clock; `stored` is its time in the store, and `newest` that of the newest event.
    pub(super) fn new(
        system: Timestamp,
        stored: Option<Timestamp>,
        newest: Option<Timestamp>,
        now: Instant,
    ) -> Self {
        let stored = stored.filter(is_plausible);
        let latest = stored.and_then(|stored| stored.checked_add(MAX_START_ADVANCE).ok());
        let limits = [latest, newest.filter(is_plausible)];
        Self {
            time: limits.into_iter().flatten().fold(system, Timestamp::min),
            read_at: now,
        }
    }

    /// Returns the time; `system` is that of the system's clock.
    pub(super) fn read(&mut self, system: Timestamp, now: Instant) -> Timestamp {
        let passed = now.saturating_duration_since(self.read_at);
        let time = Some(self.time).filter(is_plausible);
        let limit = time.and_then(|time| time.checked_add(passed * 2).ok());
        self.time = limit.map_or(system, |limit| limit.min(system));
        self.read_at = now;
        self.time
    }
}

/// Returns false for the time of a clock that was never set, such as 1970: waiting for it to catch up would
/// end the retention.
fn is_plausible(time: &Timestamp) -> bool {
    time.as_second() >= EARLIEST_TIME_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_followed_slowly() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000_000 + seconds).unwrap();
        let start = Instant::now();
        let mut clock = RetentionClock::new(at(0), None, None, start);
        for (passed, system, expected) in [
            (10, 10, 10),
            (20, 400_000_000, 30),
            (20, 400_000_000, 30),
            (40, 40, 40),
            (50, -500, -500),
            (60, 60, -480),
            (900, 900, 900),
        ] {
            let now = start + Duration::from_secs(passed);
            assert_eq!(clock.read(at(system), now), at(expected), "{passed} s");
        }
        let mut later = RetentionClock::new(at(1_000), None, Some(at(500)), start);
        let hour = start + Duration::from_secs(100);
        assert_eq!(later.read(at(1_100), hour), at(700), "after a pause");
        let mut wrong = RetentionClock::new(at(0), Some(at(9_000)), Some(at(9_000)), start);
        assert_eq!(wrong.read(at(0), start), at(0), "an event of the future");
        let (day, year) = (24 * 3600, 400_000_000);
        for (stored, newest, expected) in [(0, year, day), (0, 3_600, 3_600), (3_600, 0, 0)] {
            let mut clock =
                RetentionClock::new(at(year), Some(at(stored)), Some(at(newest)), start);
            assert_eq!(
                clock.read(at(year), start),
                at(expected),
                "{stored} {newest}"
            );
        }
    }

    #[test]
    fn clock_that_was_never_set_is_not_waited_for() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let (start, today) = (Instant::now(), at(1_000_000_000));
        let mut clock = RetentionClock::new(at(7), None, None, start);
        assert_eq!(clock.read(at(8), start), at(8));
        assert_eq!(clock.read(today, start), today);
        let mut stored = RetentionClock::new(today, Some(at(7)), None, start);
        assert_eq!(stored.read(today, start), today);
    }
}
