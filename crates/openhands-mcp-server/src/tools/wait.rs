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

    /// The report about a task at the end of the wait.
    pub(super) async fn report(
        self,
        service: &OpenHands,
        id: TaskId,
        seen: ObservedTask,
    ) -> Report {
        let OpenHands {
            servers, scheduler, ..
        } = service;
        Report::new(servers, scheduler, id, seen, self.answer_by).await
    }
}

/// Observes a task until it settles or the wait is over. If `call` is cancelled, stops the task.
/// Progress goes to `progress`.
async fn observe_or_stop(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
    progress: &Call,
) -> Result<ObservedTask, ToolError> {
    let OpenHands {
        servers,
        scheduler,
        listeners,
        ..
    } = service;
    tokio::select! {
        biased;
        () = call.cancelled() => Err(stop_abandoned(servers, scheduler, id).await),
        seen = observe(servers, listeners, id, wait.until, progress) => Ok(seen),
    }
}

/// Waits until a task settles or the wait is over, and reports.
///
/// # Errors
/// The call was cancelled; the task is stopped then.
pub(super) async fn follow(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    let seen = observe_or_stop(service, id, wait, call, call).await?;
    Ok(wait.report(service, id, seen).await)
}

/// The same without progress, for one of several tasks: their steps would be mixed up.
pub(super) async fn follow_quietly(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    let seen = observe_or_stop(service, id, wait, call, &Call::default()).await?;
    Ok(wait.report(service, id, seen).await)
}

/// The same, and asks the user for each permission, if the client supports that. Then waits on.
///
/// # Errors
/// The call was cancelled; the task is stopped then. Or the call has to end so that its client can ask
/// the user.
pub(super) async fn follow_and_ask(
    service: &OpenHands,
    id: TaskId,
    mut wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    loop {
        let seen = observe_or_stop(service, id, wait, call, call).await?;
        if seen.task.as_ref().is_some_and(|task| task.is_asking()) {
            let answer = tokio::select! {
                biased;
                // The next iteration stops the task.
                () = call.cancelled() => continue,
                answer = async {
                    ask_user(&service.servers.for_task(id).await?, id, call).await
                } => answer?,
            };
            // The user may have taken long, so the wait for the agent starts again.
            wait = wait.renewed();
            if let Some(answer) = answer {
                send_answer(&service.servers.for_task(id).await?, id, &answer).await?;
                continue;
            }
        }
        return Ok(wait.report(service, id, seen).await);
    }
}
