//! Waiting for a task that a call has started, and the report for its caller.

use std::time::Duration;

use mcp_core::tool::{Bounded, Call, ToolError, ToolErrorKind};
use tokio::time::Instant;

use crate::OpenHands;
use crate::api::{ApiFailure, TaskId};
use crate::task::{ObservedTask, Report, ask_user, observe, send_answer, stop_abandoned};

/// Hosts and our own transports time out after 30 s. A call must be answered by then, or the id of its
/// task is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(28);
/// Less than the hour for which tasks of the protocol are kept: one that expires is cancelled.
const TASK_TIMEOUT: Duration = Duration::from_secs(55 * 60);
/// A wait leaves this much of the timeout of calls for the report, and the answer this part of it.
const REPORT_TIME: Duration = Duration::from_secs(5);
const ANSWER_RESERVE: Duration = Duration::from_secs(3);
/// The default wait leaves some of that time for the report.
const DEFAULT_WAIT_SECONDS: u32 = 20;

/// The shortest and the longest time for which a call waits for a slot.
const MIN_SLOT_WAIT: Duration = Duration::from_secs(2);
const MAX_SLOT_WAIT: Duration = Duration::from_secs(10);

/// The time for which a call waits, in seconds. The timeout of calls bounds it, too.
pub(super) type WaitSeconds = Bounded<0, 600>;

/// The end of a call's wait, and the time by which the call must be answered.
#[derive(Clone, Copy)]
pub(super) struct WaitFor {
    pub(super) until: Instant,
    pub(super) answer_by: Instant,
    duration: Duration,
}

impl WaitFor {
    /// A wait that begins now, at most as long as calls of this server may take.
    pub(super) fn new(seconds: Option<WaitSeconds>, service: &OpenHands) -> Self {
        let seconds = seconds.map_or(DEFAULT_WAIT_SECONDS, Bounded::get);
        let longest = service.call_timeout().saturating_sub(REPORT_TIME);
        Self::from_duration(Duration::from_secs(seconds.into()).min(longest))
    }

    /// No wait, for a call that only starts a task.
    pub(super) fn none() -> Self {
        Self::from_duration(Duration::ZERO)
    }

    fn from_duration(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            until: now + duration,
            answer_by: now + (duration + ANSWER_RESERVE).max(ANSWER_TIMEOUT),
            duration,
        }
    }

    /// The time until which the call waits for a slot, if it begins now.
    pub(super) fn slot_by(self) -> Instant {
        Instant::now() + self.duration.clamp(MIN_SLOT_WAIT, MAX_SLOT_WAIT)
    }

    /// A wait of the same duration that begins now.
    fn renewed(self) -> Self {
        Self::from_duration(self.duration)
    }
}

/// A call that waits for a task.
pub(super) struct TaskWait<'a> {
    service: &'a OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &'a Call,
    /// The call has become a task of the protocol, which waits for the end.
    is_task: bool,
}

impl<'a> TaskWait<'a> {
    pub(super) fn new(service: &'a OpenHands, id: TaskId, wait: WaitFor, call: &'a Call) -> Self {
        Self {
            service,
            id,
            wait,
            call,
            is_task: false,
        }
    }

    /// Continues as a task of the protocol if the OpenHands task goes on and the client supports that.
    /// Returns true if the wait goes on.
    async fn becomes_task(&mut self, seen: &ObservedTask) -> bool {
        let goes_on = match (&seen.task, &seen.failure) {
            (Some(task), _) => !task.status().is_settled(),
            (None, failure) => failure.as_ref().is_some_and(ApiFailure::is_transient),
        };
        if !goes_on || self.is_task || !self.call.continue_as_task().await {
            return false;
        }
        self.is_task = true;
        self.wait = WaitFor::from_duration(TASK_TIMEOUT);
        true
    }

    /// Waits until the task settles or the wait is over. If the call is cancelled, the task goes on.
    pub(super) async fn observe(&mut self) -> ObservedTask {
        loop {
            let seen = self.observe_with(self.call).await;
            if !self.becomes_task(&seen).await {
                return seen;
            }
        }
    }

    /// The same without progress, for one of several tasks: their steps would be mixed up.
    pub(super) async fn observe_quietly(&mut self) -> ObservedTask {
        loop {
            let seen = self.observe_with(&Call::default()).await;
            if !self.becomes_task(&seen).await {
                return seen;
            }
        }
    }

    async fn observe_with(&self, progress: &Call) -> ObservedTask {
        observe(self.service, self.id, self.wait.until, progress).await
    }

    /// Waits as `observe`, but stops the task if the call is cancelled, unless this server stops: the
    /// task is found after its restart.
    async fn observe_or_stop(&mut self, progress: &Call) -> Result<ObservedTask, ToolError> {
        let OpenHands {
            servers, runner, ..
        } = self.service;
        loop {
            let seen = tokio::select! {
                biased;
                () = self.call.cancelled() => return Err(match self.call.is_closing() {
                    true => still_at_work(self.id),
                    false => stop_abandoned(servers, runner, self.id).await,
                }),
                seen = self.observe_with(progress) => seen,
            };
            if !self.becomes_task(&seen).await {
                return Ok(seen);
            }
        }
    }

    /// The report at the end of the wait.
    pub(super) async fn report(&self, seen: ObservedTask) -> Report {
        if let Some(task) = &seen.task {
            self.service.ended.record(self.id, task.last_state());
        }
        let times = (self.wait.until, self.wait.answer_by);
        Report::new(self.service, self.id, seen, times).await
    }

    /// Waits until the task settles or the wait is over, and reports.
    ///
    /// # Errors
    /// The call was cancelled; the task is stopped then.
    pub(super) async fn follow(mut self) -> Result<Report, ToolError> {
        let seen = self.observe_or_stop(self.call).await?;
        Ok(self.report(seen).await)
    }

    /// The same without progress, for one of several tasks: their steps would be mixed up.
    pub(super) async fn follow_quietly(mut self) -> Result<Report, ToolError> {
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
                    ask_user(&servers.for_task(self.id).await?, self.id, None, self.call).await
                } => answer?,
            };
            // The user may have taken long, so the wait for the agent starts again.
            self.wait = self.wait.renewed();
            match answer {
                Some(answer) => {
                    let server = servers.for_task(self.id).await?;
                    let sent = send_answer(self.service, &server, self.id, &answer);
                    match sent.await {
                        // Another client has answered meanwhile.
                        Err(error) if error.kind() == ToolErrorKind::Conflict => {}
                        sent => sent?,
                    }
                }
                None => return Ok(self.report(seen).await),
            }
        }
    }
}

/// The error for a call that ends because this server stops.
fn still_at_work(id: TaskId) -> ToolError {
    let message = format!("The server stops. Task {id} goes on: call wait_task later.");
    ToolError::new(ToolErrorKind::Unavailable, message)
}
