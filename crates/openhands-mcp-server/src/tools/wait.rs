//! Waiting for a task that a call has started, and the report for its caller.

use std::time::Duration;

use mcp_core::tool::{Bounded, Call, ToolError};
use tokio::time::Instant;

use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{ObservedTask, Report, ask_user, observe, send_answer, stop_abandoned};

/// Hosts and our own transports time out after 30 s. A call must be answered by then, or the id of its
/// task is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(28);
/// The default wait leaves some of that time for the report.
const DEFAULT_WAIT_SECONDS: u32 = 20;

/// The time for which a call waits, in seconds.
pub(super) type WaitSeconds = Bounded<0, 25>;

/// The end of a call's wait, and the time by which the call must be answered.
#[derive(Clone, Copy)]
pub(super) struct WaitFor {
    pub(super) until: Instant,
    pub(super) answer_by: Instant,
}

impl WaitFor {
    /// A wait that begins now.
    pub(super) fn new(seconds: Option<WaitSeconds>) -> Self {
        let seconds = seconds.map_or(DEFAULT_WAIT_SECONDS, Bounded::get);
        Self::from_duration(Duration::from_secs(seconds.into()))
    }

    /// No wait, for a call that only starts a task.
    pub(super) fn none() -> Self {
        Self::from_duration(Duration::ZERO)
    }

    fn from_duration(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            until: now + duration,
            answer_by: now + ANSWER_TIMEOUT,
        }
    }

    /// A wait of the same duration that begins now.
    fn renewed(self) -> Self {
        let began = self.answer_by - ANSWER_TIMEOUT;
        Self::from_duration(self.until.saturating_duration_since(began))
    }
}

/// A call that waits for a task.
pub(super) struct TaskWait<'a> {
    service: &'a OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &'a Call,
}

impl<'a> TaskWait<'a> {
    pub(super) fn new(service: &'a OpenHands, id: TaskId, wait: WaitFor, call: &'a Call) -> Self {
        Self {
            service,
            id,
            wait,
            call,
        }
    }

    /// Waits until the task settles or the wait is over. If the call is cancelled, the task goes on.
    pub(super) async fn observe(&self) -> ObservedTask {
        self.observe_with(self.call).await
    }

    async fn observe_with(&self, progress: &Call) -> ObservedTask {
        let OpenHands {
            servers, listeners, ..
        } = self.service;
        observe(servers, listeners, self.id, self.wait.until, progress).await
    }

    /// Waits as `observe`, but stops the task if the call is cancelled.
    async fn observe_or_stop(&self, progress: &Call) -> Result<ObservedTask, ToolError> {
        let OpenHands {
            servers, scheduler, ..
        } = self.service;
        tokio::select! {
            biased;
            () = self.call.cancelled() => Err(stop_abandoned(servers, scheduler, self.id).await),
            seen = self.observe_with(progress) => Ok(seen),
        }
    }

    /// The report at the end of the wait.
    pub(super) async fn report(&self, seen: ObservedTask) -> Report {
        let OpenHands {
            servers, scheduler, ..
        } = self.service;
        if let Some(task) = &seen.task {
            self.service.ended.record(self.id, task.last_state());
        }
        Report::new(servers, scheduler, self.id, seen, self.wait.answer_by).await
    }

    /// Waits until the task settles or the wait is over, and reports.
    ///
    /// # Errors
    /// The call was cancelled; the task is stopped then.
    pub(super) async fn follow(&self) -> Result<Report, ToolError> {
        let seen = self.observe_or_stop(self.call).await?;
        Ok(self.report(seen).await)
    }

    /// The same without progress, for one of several tasks: their steps would be mixed up.
    pub(super) async fn follow_quietly(&self) -> Result<Report, ToolError> {
        let seen = self.observe_or_stop(&Call::default()).await?;
        Ok(self.report(seen).await)
    }

    /// The same, and asks the user for each permission, if the client supports that. Then waits on.
    ///
    /// # Errors
    /// The call was cancelled; the task is stopped then. Or the call has to end so that its client can
    /// ask the user.
    pub(super) async fn follow_and_ask(mut self) -> Result<Report, ToolError> {
        loop {
            let seen = self.observe_or_stop(self.call).await?;
            if seen.task.as_ref().is_none_or(|task| !task.is_asking()) {
                return Ok(self.report(seen).await);
            }
            let servers = &self.service.servers;
            let answer = tokio::select! {
                biased;
                // The next iteration stops the task.
                () = self.call.cancelled() => continue,
                answer = async {
                    ask_user(&servers.for_task(self.id).await?, self.id, self.call).await
                } => answer?,
            };
            // The user may have taken long, so the wait for the agent starts again.
            self.wait = self.wait.renewed();
            match answer {
                Some(answer) => {
                    send_answer(&servers.for_task(self.id).await?, self.id, &answer).await?;
                }
                None => return Ok(self.report(seen).await),
            }
        }
    }
}
