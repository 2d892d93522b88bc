//! The time limit of following a run: that of the call, or that of a task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_core::tool::Call;
use tokio::time::Instant;
use upstream::time::Timestamp;

/// Less than the hour for which tasks are kept: a task that expires is cancelled, and its execution
/// with it.
const TASK_TIMEOUT: Duration = Duration::from_secs(55 * 60);
/// The delay after the reply, or after the deadline, within which n8n lists the execution.
pub(super) const SHOW_UP_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longer, since no connection waits for the end of a task.
const MAX_TASK_POLL_INTERVAL: Duration = Duration::from_secs(3);

/// The deadline of a run, counted from its call.
pub(super) struct Deadline<'a> {
    call: &'a Call,
    started: Instant,
    /// `started` by the clock.
    pub(super) started_at: Timestamp,
    wait: Duration,
    /// The call has become a task: then the limit is [`TASK_TIMEOUT`].
    is_task: AtomicBool,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(call: &'a Call, wait: Duration) -> Self {
        Self {
            call,
            started: Instant::now(),
            started_at: Timestamp::now(),
            wait,
            is_task: AtomicBool::new(false),
        }
    }

    fn is_task(&self) -> bool {
        self.is_task.load(Ordering::Relaxed)
    }

    fn limit(&self) -> Duration {
        if self.is_task() {
            TASK_TIMEOUT
        } else {
            self.wait
        }
    }

    pub(super) fn end(&self) -> Instant {
        self.started + self.limit()
    }

    pub(super) fn remaining(&self) -> Duration {
        self.end().saturating_duration_since(Instant::now())
    }

    /// The timeout of a request that n8n answers at the end of the run.
    pub(super) fn start_timeout(&self) -> Duration {
        let may_be_task = self.call.supports_tasks();
        SHOW_UP_TIMEOUT
            + if may_be_task {
                TASK_TIMEOUT
            } else {
                self.remaining()
            }
    }

    /// True once the time is over and the call cannot become a task, which has more.
    pub(super) async fn is_over(&self) -> bool {
        self.remaining().is_zero() && (!self.become_task().await || self.remaining().is_zero())
    }

    /// Turns the call into a task if the client supports tasks; returns true if it is one now.
    pub(super) async fn become_task(&self) -> bool {
        let is_task = self.is_task() || self.call.continue_as_task().await;
        self.is_task.store(is_task, Ordering::Relaxed);
        is_task
    }

    /// The interval before the next poll but one.
    pub(super) fn next_interval(&self, interval: Duration) -> Duration {
        let is_task = self.is_task();
        let max = if is_task {
            MAX_TASK_POLL_INTERVAL
        } else {
            MAX_POLL_INTERVAL
        };
        (interval * 3 / 2).min(max)
    }

    /// Reports the elapsed time to the client.
    pub(super) fn progress(&self, message: &str) {
        let total = self.limit().as_secs_f64();
        let done = self.started.elapsed().as_secs_f64().min(total);
        self.call.progress(done, Some(total), message);
    }
}
