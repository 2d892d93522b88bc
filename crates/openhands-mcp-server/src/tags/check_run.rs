//! A run of the command that checks a finished task, as it is kept in a tag.

use std::time::Duration;

use upstream::time::Timestamp;
use uuid::Uuid;

/// A run of the verify command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckRun {
    /// The id of its script.
    pub(crate) script: Uuid,
    /// The steps of the task when it started.
    pub(crate) steps: u64,
    /// The time of its start, in seconds.
    started: u64,
    /// It repeats a run whose outcome was lost.
    pub(crate) is_repeat: bool,
}

impl CheckRun {
    /// A run that starts now.
    pub(crate) fn new(script: Uuid, steps: u64, is_repeat: bool) -> Self {
        let started = Timestamp::now().as_second().unsigned_abs();
        Self {
            script,
            steps,
            started,
            is_repeat,
        }
    }

    /// The time since its start.
    pub(crate) fn age(&self) -> Duration {
        let now = Timestamp::now().as_second().unsigned_abs();
        Duration::from_secs(now.saturating_sub(self.started))
    }

    /// Parses the value of a tag; one of an earlier version has no time.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split('-');
        let script = Uuid::try_parse(parts.next()?).ok()?;
        let steps = parts.next()?.parse().ok()?;
        let started = parts.next().and_then(|started| started.parse().ok());
        Some(Self {
            script,
            steps,
            started: started.unwrap_or_default(),
            is_repeat: parts.next() == Some("repeat"),
        })
    }

    /// The value of the tag.
    pub(super) fn value(&self) -> String {
        let end = if self.is_repeat { "-repeat" } else { "" };
        let script = self.script.simple();
        format!("{script}-{}-{}{end}", self.steps, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_round_trips() {
        for is_repeat in [false, true] {
            let run = CheckRun::new(Uuid::from_u128(7), 3, is_repeat);
            assert_eq!(CheckRun::parse(&run.value()), Some(run));
        }
    }

    #[test]
    fn run_without_a_time_is_old() {
        let run = CheckRun::parse(&format!("{}-3", Uuid::from_u128(7).simple())).unwrap();
        assert_eq!((run.steps, run.is_repeat), (3, false));
        assert!(run.age() > Duration::from_secs(1_000_000_000));
        assert_eq!(CheckRun::parse("x-3"), None);
    }
}
