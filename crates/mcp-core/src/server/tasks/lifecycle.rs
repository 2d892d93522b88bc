//! The life of a task, beside the requests that ask about it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::Tasks;
use super::outcome::TaskOutcome;
use super::task::Task;
use crate::clock::Clock;
use crate::error::Error;
use crate::server::limits::CLEAN_UP;
use crate::server::outcome::Outcome;

/// What a call does, and what its request would be answered with.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send>>;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// `work` as it can be left alone: a tool that panics is a fault of ours, told as one.
pub(super) fn guarded(work: impl Future<Output = Result<Outcome, Error>> + Send + 'static) -> Work {
    let caught = AssertUnwindSafe(work).catch_unwind();
    Box::pin(caught.map(|outcome| {
        outcome.unwrap_or_else(|_| {
            tracing::error!("a tool panicked in its task");
            Err(Error::Internal)
        })
    }))
}

/// Works until the work is done, the task is cancelled or its time is over, and keeps the outcome
/// for the rest of that time.
pub(super) async fn live(tasks: Arc<Tasks>, task: Arc<Task>, work: Work, clock: Arc<dyn Clock>) {
    let mut over = clock.sleep(task.ttl);
    if ended_in_time(&tasks, &task, work, &mut over, &*clock).await {
        tokio::select! {
            () = over => {}
            () = task.gone.cancelled() => return,
        }
    }
    tasks.forget(&task.id);
}

async fn ended_in_time(
    tasks: &Tasks,
    task: &Task,
    mut work: Work,
    over: &mut Sleep,
    clock: &dyn Clock,
) -> bool {
    let in_time = tokio::select! {
        biased;
        outcome = &mut work => {
            task.end(TaskOutcome::from_outcome(outcome));
            tasks.make_room(0);
            return true;
        }
        () = task.stop.cancelled() => true,
        () = over => {
            task.end(TaskOutcome::expired());
            tasks.forget(&task.id);
            false
        }
    };
    // It may stop what it has started; what it says now is not heard.
    task.cancel();
    tokio::select! {
        _ = work => {}
        () = clock.sleep(CLEAN_UP) => {}
    }
    in_time
}
