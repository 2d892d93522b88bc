//! Following a task that a call has started, up to the report for its caller.

use std::time::Duration;

use mcp_core::tool::{Bounded, Call, ToolError};
use tokio::time::Instant;

use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Observed, Report, abandon, ask_user, give_answer, observe};

/// Hosts and our own transports give up on a call after 30 s; by then it must have been answered,
/// or the task's id is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(28);
/// Leaves the largest part of that to the task.
const DEFAULT_WAIT_SECONDS: u32 = 20;

/// Seconds that a call waits.
pub(super) type WaitSeconds = Bounded<0, 25>;

/// Until when a call waits, and when it must be answered.
#[derive(Clone, Copy)]
pub(super) struct WaitFor {
    pub(super) until: Instant,
    pub(super) answer_by: Instant,
}

impl WaitFor {
    /// Begins now.
    pub(super) fn new(seconds: Option<WaitSeconds>) -> Self {
        Self::from_seconds(seconds.map_or(DEFAULT_WAIT_SECONDS, Bounded::get))
    }

    /// For a call that starts a task and does not wait.
    pub(super) fn none() -> Self {
        Self::from_seconds(0)
    }

    fn from_seconds(seconds: u32) -> Self {
        let now = Instant::now();
        Self {
            until: now + Duration::from_secs(seconds.into()),
            answer_by: now + ANSWER_TIMEOUT,
        }
    }

    /// The same, from now on.
    fn renewed(self) -> Self {
        let began = self.answer_by - ANSWER_TIMEOUT;
        let now = Instant::now();
        Self {
            until: now + self.until.saturating_duration_since(began),
            answer_by: now + ANSWER_TIMEOUT,
        }
    }
}

/// Observes a task that the caller has started, until it settles or the wait is over. A caller that
/// gives up on the call gives up on the task. `listener` is told of the steps.
async fn observe_or_abandon(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
    listener: &Call,
) -> Result<Observed, ToolError> {
    tokio::select! {
        biased;
        () = call.cancelled() => Err(abandon(service, id).await),
        seen = observe(service, id, wait.until, listener) => Ok(seen),
    }
}

/// Follows a task until it settles or the wait is over, and reports.
///
/// # Errors
/// When the caller gave up; the task is then stopped.
pub(super) async fn follow(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    let seen = observe_or_abandon(service, id, wait, call, call).await?;
    Ok(Report::new(service, id, seen, wait.answer_by).await)
}

/// The same for one of several tasks: their steps, mixed, would tell nothing.
pub(super) async fn follow_quietly(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    let seen = observe_or_abandon(service, id, wait, call, &Call::default()).await?;
    Ok(Report::new(service, id, seen, wait.answer_by).await)
}

/// The same; whenever the agent asks for a permission, the user answers, where the client can ask
/// them and the wait goes on after that.
///
/// # Errors
/// When the caller gave up; the task is then stopped. Also to end this round of the call.
pub(super) async fn follow_and_ask(
    service: &OpenHands,
    id: TaskId,
    mut wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    loop {
        let seen = observe_or_abandon(service, id, wait, call, call).await?;
        if seen.task.as_ref().is_some_and(|task| task.is_asking()) {
            let answer = tokio::select! {
                biased;
                // Following it once more stops it.
                () = call.cancelled() => continue,
                answer = async {
                    ask_user(&service.servers.at(id).await?, id, call).await
                } => answer?,
            };
            // People take their time: the wait for the agent begins anew.
            wait = wait.renewed();
            if let Some(answer) = answer {
                give_answer(&service.servers.at(id).await?, id, &answer).await?;
                continue;
            }
        }
        return Ok(Report::new(service, id, seen, wait.answer_by).await);
    }
}
