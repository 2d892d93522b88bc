//! Waiting for a task to end, with a progress message for every step.

use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep_until, timeout_at};
use upstream::poll::Backoff;

use super::snapshot::TaskSnapshot;
use crate::OpenHands;
use crate::api::{ApiFailure, ApiResult, Servers, TaskId};
use crate::runner::Runner;
use crate::tags::StopReason;

/// The poll interval. It grows while nothing new is seen.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const POLL_BACKOFF: Backoff = Backoff::new(POLL_INTERVAL, Duration::from_secs(2));

/// The timeout of the first poll, even if the wait is shorter.
const FIRST_POLL_TIMEOUT: Duration = Duration::from_secs(2);

/// The last known state of a task at the end of a wait.
#[derive(Default)]
pub(crate) struct ObservedTask {
    /// The last successful poll.
    pub(crate) task: Option<TaskSnapshot>,
    /// The failure of the last poll.
    pub(crate) failure: Option<ApiFailure>,
}

/// Polls a task until it settles or `until`. Waits for an agent server that does not answer, because
/// tasks survive its restarts.
pub(crate) async fn observe(
    service: &OpenHands,
    id: TaskId,
    until: Instant,
    call: &Call,
) -> ObservedTask {
    let mut seen = ObservedTask::default();
    call.progress(0.0, None, "Waiting for the task.");
    // Even a caller that does not wait learns whether the task runs.
    let first = Instant::now() + FIRST_POLL_TIMEOUT;
    let mut delays = POLL_BACKOFF.delays();
    loop {
        let deadline = match seen.task {
            Some(_) => until,
            None => until.max(first),
        };
        let polled = poll(service, id, &mut seen.task, call);
        match timeout_at(deadline, polled).await {
            Ok(Ok(settled)) => {
                seen.failure = None;
                if settled {
                    return seen;
                }
                let has_news = |task: &TaskSnapshot| !task.new_actions.is_empty();
                if seen.task.as_ref().is_some_and(has_news) {
                    delays.reset();
                }
            }
            Ok(Err(failure)) => {
                tracing::debug!(task = %id, ?failure, "cannot poll the task");
                let transient = failure.is_transient();
                seen.failure = Some(failure);
                if !transient {
                    return seen;
                }
            }
            Err(_) => {
                // Without a response nothing is known, not even whether the task exists.
                if seen.task.is_none() {
                    seen.failure.get_or_insert(ApiFailure::NoAnswer);
                }
                return seen;
            }
        }
        let polled = Instant::now();
        if polled + POLL_INTERVAL >= until {
            return seen;
        }
        // The last poll is just before the end.
        sleep_until((polled + delays.next_delay()).min(until - POLL_INTERVAL)).await;
    }
}

/// Polls once and reports new steps. Returns true once the task has settled.
async fn poll(
    service: &OpenHands,
    id: TaskId,
    task: &mut Option<TaskSnapshot>,
    call: &Call,
) -> ApiResult<bool> {
    let server = service.servers.for_task(id).await?;
    let task = match task {
        Some(task) => {
            task.refresh(&server).await?;
            task
        }
        None => task.insert(TaskSnapshot::read(&server, id).await?),
    };
    if task.needs_run {
        service.runner.begin_later(id);
    }
    report_progress(task, call);
    Ok(task.status().is_settled())
}

/// Stops a task whose caller has cancelled the call, if its agent server can be reached.
pub(crate) async fn stop_abandoned(servers: &Servers, runner: &Runner, id: TaskId) -> ToolError {
    let stopped = async {
        let server = servers.for_task(id).await?;
        runner.stop(&server, id, StopReason::Cancelled).await
    };
    match stopped.await {
        Ok(()) => tracing::info!(task = %id, "task stopped, the call was cancelled"),
        Err(failure) => tracing::warn!(task = %id, ?failure, "cannot stop the task"),
    }
    let message = format!("The call was cancelled, and so was task {id}.");
    ToolError::new(ToolErrorKind::Cancelled, message)
}

fn report_progress(task: &TaskSnapshot, call: &Call) {
    let first = task.steps - task.new_actions.len() as u64;
    for (step, action) in (first + 1..).zip(&task.new_actions) {
        let done = f64::from(u32::try_from(step).unwrap_or(u32::MAX));
        call.progress(done, None, &format!("Step {step}: {action}"));
    }
}
