//! Waiting for a task to end, with a word to the caller about every step.

use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::snapshot::TaskSnapshot;
use crate::OpenHands;
use crate::api::{Failure, Servers, TaskId};
use crate::tags::StopReason;

/// Between two looks at a task: at most while nothing is heard of it, and after something was, which
/// may be told before it is stored; at most while all that happens is heard; and at least, because
/// models speak word by word.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const LISTENING_POLL_INTERVAL: Duration = Duration::from_secs(5);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// At most before it was ever seen.
const ABSENT_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// For one look, however short the wait is.
const FIRST_POLL_TIMEOUT: Duration = Duration::from_secs(2);

/// A task as it was seen until the wait was over.
pub(crate) struct Observed {
    /// The newest look that succeeded.
    pub(crate) task: Option<TaskSnapshot>,
    /// Why the last look failed.
    pub(crate) failure: Option<Failure>,
}

/// Follows a task until it settles, but not beyond `until`. An agent server that is away for a while
/// is waited for: its tasks survive its restarts.
pub(crate) async fn observe(
    service: &OpenHands,
    id: TaskId,
    until: Instant,
    call: &Call,
) -> Observed {
    let mut seen = Observed {
        task: None,
        failure: None,
    };
    call.progress(0.0, None, "The task was started.");
    // Whoever does not wait is told at least whether it runs or is queued.
    let first = Instant::now() + FIRST_POLL_TIMEOUT;
    let mut listener = None;
    let mut interval = POLL_INTERVAL;
    loop {
        let deadline = if seen.task.is_none() {
            until.max(first)
        } else {
            until
        };
        let polled = poll(&service.servers, id, &mut seen.task, call);
        match timeout_at(deadline, polled).await {
            Ok(Ok(settled)) => {
                seen.failure = None;
                if settled {
                    return seen;
                }
            }
            Ok(Err(failure)) => {
                tracing::debug!(task = %id, ?failure, "cannot look at the task");
                let transient = failure.is_transient();
                seen.failure = Some(failure);
                if !transient {
                    return seen;
                }
            }
            Err(_) => return seen,
        }
        let polled = Instant::now();
        if polled + POLL_INTERVAL >= until {
            return seen;
        }
        if seen.task.is_some() && listener.is_none() {
            interval = POLL_INTERVAL;
        }
        // The last look is just before the end.
        let next = (polled + interval).min(until - POLL_INTERVAL);
        let next = next.max(polled + MIN_POLL_INTERVAL);
        // Most tasks that are asked about have ended: only now is it worth a socket.
        if seen.task.is_none() {
            // It does not run, or not yet: a sandbox takes half a minute to start.
            sleep_until(next).await;
            interval = (2 * interval).min(ABSENT_POLL_INTERVAL);
            continue;
        }
        let listener = listener.get_or_insert_with(|| service.listeners.listen(id));
        tokio::select! {
            () = listener.changed() => {
                interval = POLL_INTERVAL;
                sleep_until(polled + MIN_POLL_INTERVAL).await;
            }
            () = sleep_until(next) => {
                let max = if listener.is_open() { LISTENING_POLL_INTERVAL } else { POLL_INTERVAL };
                interval = (2 * interval).min(max);
            }
        }
    }
}

/// Looks once and tells the caller what is new; true once the task has settled.
async fn poll(
    servers: &Servers,
    id: TaskId,
    task: &mut Option<TaskSnapshot>,
    call: &Call,
) -> Result<bool, Failure> {
    let server = servers.at(id).await?;
    let task = match task {
        Some(task) => {
            task.refresh(&server).await?;
            task
        }
        None => task.insert(TaskSnapshot::read(&server, id).await?),
    };
    report_progress(task, call);
    Ok(task.status().is_settled())
}

/// Stops a task whose caller gave up, as far as its agent can be reached.
pub(crate) async fn abandon(service: &OpenHands, id: TaskId) -> ToolError {
    let stopped = async {
        let server = service.servers.at(id).await?;
        let reason = StopReason::Cancelled;
        service.scheduler.stop(&server, id, reason).await
    };
    match stopped.await {
        Ok(()) => tracing::info!(task = %id, "task stopped, the caller gave up"),
        Err(failure) => tracing::warn!(task = %id, ?failure, "cannot stop the task"),
    }
    let message = format!("The call was cancelled, and so was task {id}.");
    ToolError::new(ToolErrorKind::Cancelled, message)
}

fn report_progress(task: &TaskSnapshot, call: &Call) {
    let first = task.steps - task.news.len() as u64;
    for (step, action) in (first + 1..).zip(&task.news) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a count of steps is far below 2^52"
        )]
        let done = step as f64;
        call.progress(done, None, &format!("Step {step}: {action}"));
    }
}
