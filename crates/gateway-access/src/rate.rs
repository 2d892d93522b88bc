//! Limits for the calls of a role (`limit`), counted for each caller.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Limit for the number of callers that are counted apart, about 1 MiB. The others share one count.
const MAX_CALLERS: usize = 10_000;

/// Limit for the number of later rounds that are remembered. Beyond it, they count as calls.
const MAX_ROUNDS: usize = 10_000;

/// Longer than a `requestState` is valid.
const ROUND_AGE: Duration = Duration::from_secs(2 * 3_600);

/// Calls in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    calls: u32,
    unit: (&'static str, u64),
}

/// The units of time, with their seconds.
const UNITS: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3_600), ("day", 86_400)];

/// A limit that a role declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The most calls.
    pub rate: Rate,
    /// The role that declares it.
    pub role: Arc<str>,
    /// Its line in the file, counted from 1.
    pub line: usize,
}

/// A role and the name of a caller; `None` for callers without a token.
type RoleAndCaller = (Arc<str>, Option<Arc<str>>);

/// The calls of each role and caller. A change of the configuration keeps them.
#[derive(Default)]
pub struct CallCounts {
    /// The time at which all calls so far would be over if they came at the rate of the limit.
    busy_until: Mutex<HashMap<RoleAndCaller, Instant>>,
    /// The ids of the `requestState` of later rounds, which were not counted, until they have expired.
    rounds: Mutex<HashMap<String, Instant>>,
}

impl Rate {
    /// Parses a rate such as `30/min`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected =
            "must be a number of calls in a time: `10/s`, `30/min`, `100/h` or `500/day`";
        let (calls, unit) = text.split_once('/').ok_or(expected)?;
        let mut units = UNITS.into_iter();
        let unit = units.find(|(name, _)| *name == unit.trim());
        let unit = unit.ok_or(expected)?;
        let calls: u32 = calls.trim().parse().map_err(|_| expected)?;
        match calls {
            0 => Err("must allow at least one call; `deny` refuses all"),
            1..=1_000_000 => Ok(Self { calls, unit }),
            _ => Err("must be at most 1000000"),
        }
    }

    /// So many calls in a minute.
    pub const fn a_minute(calls: u32) -> Self {
        Self {
            calls,
            unit: UNITS[1],
        }
    }

    fn time(self) -> Duration {
        Duration::from_secs(self.unit.1)
    }

    /// The time between two calls at this rate.
    fn interval(self) -> Duration {
        self.time() / self.calls
    }

    /// True if fewer calls are possible in a long time.
    pub fn is_stricter_than(self, other: Self) -> bool {
        self.interval() > other.interval()
    }
}

impl CallCounts {
    /// Counts a call of `caller` with the limit of `role`; or a question to it, with that of the backend that asks.
    ///
    /// # Errors
    /// The time after which it may try again; the call is not counted.
    pub fn take(
        &self,
        role: &Arc<str>,
        caller: Option<&Arc<str>>,
        rate: Rate,
        now: Instant,
    ) -> Result<(), Duration> {
        let mut busy_until = self.busy_until.lock();
        let mut key = (Arc::clone(role), caller.cloned());
        if busy_until.len() >= MAX_CALLERS && !busy_until.contains_key(&key) {
            busy_until.retain(|_, until| *until > now);
            if busy_until.len() >= MAX_CALLERS {
                key.1 = None;
            }
        }
        let until = busy_until.entry(key).or_insert(now);
        let busy = until.saturating_duration_since(now);
        // As many calls as the limit has may come at once.
        let room = rate.time().saturating_sub(rate.interval());
        if busy > room {
            return Err(busy.saturating_sub(room));
        }
        *until = now + busy + rate.interval();
        Ok(())
    }

    /// True for the first request with the `requestState` that has this id. It continues a call; another one with
    /// the same state would be a call of its own.
    pub fn is_first_use(&self, id: &str, now: Instant) -> bool {
        let mut rounds = self.rounds.lock();
        if rounds.len() >= MAX_ROUNDS {
            rounds.retain(|_, expiry| *expiry > now);
        }
        let is_new = rounds.len() < MAX_ROUNDS && !rounds.contains_key(id);
        if is_new {
            rounds.insert(id.to_owned(), now + ROUND_AGE);
        }
        is_new
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.calls, self.unit.0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, role, line } = self;
        write!(f, "line {line}: roles.{role}.limit: {rate}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_number_and_a_unit() {
        for (text, calls, seconds) in [
            ("10/s", 10, 1),
            ("30/min", 30, 60),
            (" 5 / h ", 5, 3_600),
            ("1/day", 1, 86_400),
        ] {
            let rate = Rate::parse(text).unwrap();
            assert_eq!(
                (rate.calls, rate.time().as_secs()),
                (calls, seconds),
                "{text}"
            );
        }
        for bad in [
            "",
            "30",
            "30/week",
            "/min",
            "0/min",
            "-1/min",
            "1.5/min",
            "99999999/s",
            "30/min/s",
        ] {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn calls_beyond_the_rate_are_refused_until_their_time() {
        let counts = CallCounts::default();
        let (role, alice): (Arc<str>, Arc<str>) = ("oncall".into(), "alice".into());
        let rate = Rate::parse("3/min").unwrap();
        let start = Instant::now();
        let take = |caller, seconds| {
            counts.take(&role, caller, rate, start + Duration::from_secs(seconds))
        };
        for _ in 0..3 {
            assert_eq!(take(Some(&alice), 0), Ok(()));
        }
        assert_eq!(take(Some(&alice), 0), Err(Duration::from_secs(20)));
        assert_eq!(take(Some(&alice), 15), Err(Duration::from_secs(5)));
        assert_eq!(take(None, 15), Ok(()), "counted for each caller");
        assert_eq!(take(Some(&alice), 20), Ok(()));
        assert_eq!(take(Some(&alice), 20), Err(Duration::from_secs(20)));
        for _ in 0..3 {
            assert_eq!(take(Some(&alice), 200), Ok(()));
        }
        assert!(take(Some(&alice), 200).is_err());
    }

    #[test]
    fn counts_take_bounded_memory_and_more_callers_share_one() {
        let counts = CallCounts::default();
        let (role, rate) = ("r".into(), Rate::parse("1/day").unwrap());
        let now = Instant::now();
        for n in 0..MAX_CALLERS {
            let caller: Arc<str> = n.to_string().into();
            assert_eq!(counts.take(&role, Some(&caller), rate, now), Ok(()));
        }
        let more: Vec<bool> = (0..3)
            .map(|n| {
                let caller: Arc<str> = format!("more {n}").into();
                counts.take(&role, Some(&caller), rate, now).is_ok()
            })
            .collect();
        assert_eq!(more, [true, false, false]);
        assert!(counts.busy_until.lock().len() <= MAX_CALLERS + 1);
    }

    #[test]
    fn each_state_continues_a_call_once_and_takes_bounded_memory() {
        let counts = CallCounts::default();
        let now = Instant::now();
        assert!(counts.is_first_use("a", now));
        assert!(!counts.is_first_use("a", now + Duration::from_secs(3_600)));
        for n in 1..MAX_ROUNDS {
            assert!(counts.is_first_use(&n.to_string(), now));
        }
        assert!(!counts.is_first_use("b", now));
        assert!(counts.is_first_use("b", now + ROUND_AGE));
    }
}
