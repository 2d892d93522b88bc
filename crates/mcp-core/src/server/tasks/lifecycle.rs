//! Runs tasks in the background until they expire.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::FutureExt as _;

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
/// expires. Where another process can take the task, it is left to that one when this one stops.
pub(super) async fn run(
    tasks: Arc<Tasks>,
    task: Arc<Task>,
    work: Work,
    clock: Arc<dyn Clock>,
    store: Option<Arc<dyn TaskStore>>,
) {
    let mut expiry = clock.sleep(task.ttl());
    let store = store.as_ref();
    let work = pin!(certain_end(work, &task, store));
    let is_in_time = tokio::select! {
        biased;
        () = moved(&task, store) => {
            task.give_up();
            return tasks.remove(&task);
        }
        is_in_time = ended_in_time(&tasks, &task, work, &mut expiry, &*clock) => is_in_time,
    };
    drop(save(store, &task));
    if is_in_time {
        tokio::select! {
            () = expiry => {}
            () = task.removed.cancelled() => return,
        }
    }
    tasks.remove(&task);
}

/// Completes when the task is that of another process: it was taken, or is left behind. Meanwhile stores how to go on
/// with it.
async fn moved(task: &Task, store: Option<&Arc<dyn TaskStore>>) {
    let Some(store) = store else {
        return std::future::pending().await;
    };
    let stored = async {
        task.resumption_known().await;
        drop(save(Some(store), task));
        std::future::pending().await
    };
    let left = async {
        task.closing.cancelled().await;
        // One that was cancelled before has its outcome.
        if task.has_ended() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = store.taken(&task.id) => {}
        () = left => {}
        () = stored => {}
    }
}

/// The work, and then the wait until it is certain that no other process has told the client of another end, as one
/// can during a pause of this process. Where the table is out of reach, that may last until the task expires.
async fn certain_end(
    work: Work,
    task: &Task,
    store: Option<&Arc<dyn TaskStore>>,
) -> Result<Outcome, Error> {
    let outcome = work.await;
    if let Some(store) = store {
        store.certain().await;
        // That may have become known since `moved` has looked, which comes first and ends this.
        if store.has_taken(&task.id) {
            return std::future::pending().await;
        }
    }
    outcome
}

/// Returns false if the task expired before its end.
async fn ended_in_time(
    tasks: &Tasks,
    task: &Task,
    mut work: Pin<&mut impl Future<Output = Result<Outcome, Error>>>,
    expiry: &mut Sleep,
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
        // Not of a call whose request still waits for its result.
        () = task.closing.cancelled() => true,
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
