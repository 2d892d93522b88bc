//! The log of calls that have failed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::tool::ToolError;

/// Interval of warnings about one tool and one kind of error. A service that is away fails each call, and an agent
/// tries again: one line says it, the others are for debugging.
const INTERVAL: Duration = Duration::from_secs(60);
/// Limit of tools and kinds that are told apart; then all are warned of again.
const MAX_TOLD: usize = 1_000;

/// The failures that were warned of.
#[derive(Default)]
pub(super) struct FailureLog(Mutex<HashMap<(String, &'static str), Told>>);

/// The last warning about a tool and a kind.
struct Told {
    at: Instant,
    /// Failures since then.
    more: u64,
}

impl FailureLog {
    /// Logs why a call of the tool `name` has failed: a warning if the operator should know, but not each time.
    pub(super) fn log(&self, name: &str, error: &ToolError) {
        let (kind, cause) = (error.kind().as_str(), error.causes());
        let more = error
            .concerns_operator()
            .then(|| self.count(name, kind, Instant::now()));
        match more.flatten() {
            Some(0) => tracing::warn!(name, kind, cause, "{error}"),
            Some(more) => tracing::warn!(name, kind, cause, more, "{error}"),
            None => tracing::debug!(name, kind, cause, "{error}"),
        }
    }

    /// Counts a failure. Returns the number of those that were not warned of, if a warning is due.
    fn count(&self, name: &str, kind: &'static str, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        let Some(last) = told.get_mut(&(name.to_owned(), kind)) else {
            let first = Told { at: now, more: 0 };
            told.insert((name.to_owned(), kind), first);
            return Some(0);
        };
        if now.saturating_duration_since(last.at) < INTERVAL {
            last.more += 1;
            return None;
        }
        last.at = now;
        Some(std::mem::take(&mut last.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_kind_are_one_warning_a_minute() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(log.count("a", "timeout", at(0)), Some(0));
        assert_eq!(log.count("b", "timeout", at(1)), Some(0));
        assert_eq!(log.count("a", "upstream", at(2)), Some(0));
        for seconds in 3..60 {
            assert_eq!(log.count("a", "timeout", at(seconds)), None);
        }
        assert_eq!(log.count("a", "timeout", at(60)), Some(57));
        assert_eq!(log.count("a", "timeout", at(61)), None);
        for tool in 0..2 * MAX_TOLD {
            log.count(&tool.to_string(), "timeout", at(62));
        }
        assert!(log.0.lock().unwrap().len() <= MAX_TOLD);
    }
}
