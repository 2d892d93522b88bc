//! The tasks that this server is starting, or whose tags it reads and writes: all tags are replaced at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::api::TaskId;

type Start = Arc<tokio::sync::Mutex<()>>;

/// The tasks that this server is starting or changing, one call each.
#[derive(Default)]
pub(crate) struct Starts(Mutex<HashMap<TaskId, Start>>);

impl Starts {
    /// Waits until no other call starts or changes the task.
    pub(crate) async fn lock(&self, id: TaskId) -> OwnedMutexGuard<()> {
        let start = {
            let mut starts = self.map();
            starts.retain(|_, start| Arc::strong_count(start) > 1);
            Arc::clone(starts.entry(id).or_default())
        };
        start.lock_owned().await
    }

    /// Locks the task, unless a call of this server is starting or changing it.
    pub(crate) fn try_lock(&self, id: TaskId) -> Option<OwnedMutexGuard<()>> {
        let start = Arc::clone(self.map().entry(id).or_default());
        start.try_lock_owned().ok()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<TaskId, Start>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_call_at_a_time_starts_a_task() {
        let (starts, id) = (Starts::default(), TaskId::from_key("a"));
        let first = starts.lock(id).await;
        assert!(starts.try_lock(id).is_none());
        let second = starts.lock(id);
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        assert!(starts.try_lock(id).is_some());
        let _other = starts.lock(TaskId::from_key("b")).await;
        assert_eq!(starts.map().len(), 1);
    }
}
