//! How long a run is followed: for the caller's bound, or as a task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_core::tool::Call;
use tokio::time::Instant;
use upstream::time::Timestamp;

/// How long a task follows its execution: less than the hour that tasks are kept, because a task
/// that expires is given up, and with it the execution.
const TASK_WAIT: Duration = Duration::from_secs(55 * 60);
/// How long after the reply, or after the bound, the execution may take to show up.
pub(super) const SHOW_UP_TIMEOUT: Duration = Duration::from_secs(3);
/// The first pause between two polls.
pub(super) const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// No connection waits for the end of a task.
const LONGEST_TASK_POLL_INTERVAL: Duration = Duration::from_secs(3);

/// The time that a run has, counted from the call.
pub(super) struct Deadline<'a> {
    call: &'a Call,
    begun: Instant,
    /// The same by the clock.
    pub(super) called_at: Timestamp,
    wait: Duration,
    /// The call goes on as a task: then the bound is [`TASK_WAIT`].
    is_task: AtomicBool,
}

impl<'a> Deadline<'a> {
    /// The bound counts from here.
    pub(super) fn new(call: &'a Call, wait: Duration) -> Self {
        Self {
            call,
            begun: Instant::now(),
            called_at: Timestamp::now(),
            wait,
            is_task: AtomicBool::new(false),
        }
    }

    pub(super) fn bound(&self) -> Instant {
        let is_task = self.is_task.load(Ordering::Relaxed);
        self.begun + if is_task { TASK_WAIT } else { self.wait }
    }

    /// The time until the bound.
    pub(super) fn left(&self) -> Duration {
        self.bound().saturating_duration_since(Instant::now())
    }

    /// The limit of a request that n8n answers at the end of the run.
    pub(super) fn longest_start(&self) -> Duration {
        let wait = if self.call.supports_tasks() {
            TASK_WAIT
        } else {
            self.left()
        };
        wait + SHOW_UP_TIMEOUT
    }

    /// True once the bound is reached, and the call cannot go on as a task, which has a later one.
    pub(super) async fn is_over(&self) -> bool {
        self.left().is_zero() && (!self.goes_on().await || self.left().is_zero())
    }

    /// Goes on as a task, if the caller knows tasks; true if this is one now.
    pub(super) async fn goes_on(&self) -> bool {
        let is_task = self.is_task.load(Ordering::Relaxed) || self.call.continue_as_task().await;
        self.is_task.store(is_task, Ordering::Relaxed);
        is_task
    }

    /// The pause that comes after this one.
    pub(super) fn longer(&self, pause: Duration) -> Duration {
        let is_task = self.is_task.load(Ordering::Relaxed);
        (pause * 3 / 2).min(if is_task {
            LONGEST_TASK_POLL_INTERVAL
        } else {
            LONGEST_POLL_INTERVAL
        })
    }

    /// Tells the caller how much of the time is over.
    pub(super) fn progress(&self, message: &str) {
        let total = self.bound().duration_since(self.begun).as_secs_f64();
        let done = self.begun.elapsed().as_secs_f64().min(total);
        self.call.progress(done, Some(total), message);
    }
}
