//! Timeout and cancellation of requests, and the log of calls that have failed.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;

use super::Server;
use super::context::RequestContext;
use crate::tool::{Call, ToolError, ToolErrorKind};

/// The number of extra timeouts of a call that waits for a person.
const MAX_EXTENSIONS: usize = 20;

/// The time that a cancelled tool has to clean up.
pub(super) const CLEANUP_GRACE: Duration = Duration::from_secs(2);

impl Server {
    /// Runs `work` until it ends, times out or is cancelled.
    pub(super) async fn within_limits<T>(
        &self,
        name: &str,
        context: &RequestContext<'_>,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let call = &context.call;
        let result = tokio::select! {
            biased;
            result = work => result,
            () = self.timed_out(call) => Err(ToolError::new(
                ToolErrorKind::Timeout,
                format!(
                    "{name} did not finish within {} s; it may still take effect.",
                    (self.settings.call_timeout + call.extra_time()).as_secs()
                ),
            )),
            () = self.cancelled(call) => Err(ToolError::new(
                ToolErrorKind::Cancelled,
                format!("{name} was cancelled; it may still take effect."),
            )),
        };
        if let Err(error) = &result {
            self.failures.log(name, error);
            context.record.failed(error.kind().as_str());
            if error.concerns_operator() {
                self.service_failed.notify_one();
            }
        }
        result
    }

    /// Completes at the timeout of the call, which is longer while it waits for a person, and by the time
    /// that the tool asks for.
    pub(super) async fn timed_out(&self, call: &Call) {
        sleep(self.settings.call_timeout).await;
        let (mut extra, mut extensions) = (Duration::ZERO, 0);
        loop {
            let asked = call.extra_time();
            if asked > extra {
                sleep(asked - extra).await;
                extra = asked;
            } else if call.is_asking() && extensions < MAX_EXTENSIONS {
                sleep(self.settings.call_timeout).await;
                extensions += 1;
            } else {
                return;
            }
        }
    }

    /// Completes after the cancellation of the call and the grace period of the tool.
    async fn cancelled(&self, call: &Call) {
        call.cancelled().await;
        sleep(CLEANUP_GRACE).await;
    }
}

/// Interval of warnings about one tool and one kind of error. A service that is away fails each call, and an agent
/// tries again: one line says it, the others are for debugging.
const INTERVAL: Duration = Duration::from_secs(60);
/// Limit of tools and kinds that are told apart; then all are warned of again.
const MAX_WARNINGS: usize = 1_000;

/// The failures that were warned of.
#[derive(Default)]
pub(super) struct FailureLog(Mutex<HashMap<(String, &'static str), LastWarning>>);

/// The last warning about a tool and a kind.
struct LastWarning {
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
        let mut warnings = self.0.lock();
        if warnings.len() >= MAX_WARNINGS {
            warnings.clear();
        }
        let Some(last) = warnings.get_mut(&(name.to_owned(), kind)) else {
            let first = LastWarning { at: now, more: 0 };
            warnings.insert((name.to_owned(), kind), first);
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
        for tool in 0..2 * MAX_WARNINGS {
            log.count(&tool.to_string(), "timeout", at(62));
        }
        assert!(log.0.lock().len() <= MAX_WARNINGS);
    }
}
