//! Runs tasks in the background until they expire.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;

use super::Tasks;
use super::outcome::TaskOutcome;
use super::store::{TaskStore, save};
use super::task::Task;
use crate::clock::Clock;
use crate::error::Error;
use crate::server::limits::CLEANUP_GRACE;
use crate::server::outcome::Outcome;

/// The work of a call, with its outcome.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send>>;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Boxes `work`. A panic of the tool becomes an internal error.
pub(super) fn catch_panic(
    work: impl Future<Output = Result<Outcome, Error>> + Send + 'static,
) -> Work {
    let caught = AssertUnwindSafe(work).catch_unwind();
    Box::pin(caught.map(|outcome| {
        outcome.unwrap_or_else(|_| {
            tracing::error!("a tool panicked in its task");
            Err(Error::Internal)
        })
    }))
}

/// Runs the work until it ends, is cancelled or expires, and stores the outcome until the task
/// expires.
pub(super) async fn run(
    tasks: Arc<Tasks>,
    task: Arc<Task>,
    work: Work,
    clock: Arc<dyn Clock>,
    store: Option<Arc<dyn TaskStore>>,
) {
    let mut expiry = clock.sleep(task.ttl());
    let store = store.as_ref();
    let is_in_time = ended_in_time(&tasks, &task, work, &mut expiry, &*clock, store).await;
    drop(save(store, &task));
    if is_in_time {
        tokio::select! {
            () = expiry => {}
            () = task.removed.cancelled() => return,
        }
    }
    tasks.remove(&task);
}

/// Returns false if the task expired before its end.
async fn ended_in_time(
    tasks: &Tasks,
    task: &Task,
    mut work: Work,
    expiry: &mut Sleep,
    clock: &dyn Clock,
    store: Option<&Arc<dyn TaskStore>>,
) -> bool {
    let cancelled_elsewhere: OptionFuture<_> = store.map(|store| store.cancelled(&task.id)).into();
    let in_time = tokio::select! {
        biased;
        outcome = &mut work => {
            task.end(TaskOutcome::from_outcome(outcome));
            tasks.make_room(0);
            return true;
        }
        () = task.stop.cancelled() => true,
        Some(()) = cancelled_elsewhere => true,
        // Not of a call whose request still waits for its result.
        () = task.closing.cancelled() => {
            if store.is_some() {
                // For those that ask another process.
                task.end(TaskOutcome::lost());
            }
            true
        }
        () = expiry => {
            task.end(TaskOutcome::expired());
            tasks.remove(task);
            false
        }
    };
    // The tool may still clean up; its result is ignored.
    task.cancel();
    tokio::select! {
        _ = work => {}
        () = clock.sleep(CLEANUP_GRACE) => {}
    }
    in_time
}
