//! The tasks that this server is starting, or whose tags it reads and writes: all tags are replaced at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::api::TaskId;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// The tasks that this server is starting or changing, one call each.
#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<TaskId, Lock>>);

impl Locks {
    /// Waits until no other call starts or changes the task.
    pub(crate) async fn lock(&self, id: TaskId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.map();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id).or_default())
        };
        lock.lock_owned().await
    }

    /// Locks the task, unless a call of this server is starting or changing it.
    pub(crate) fn try_lock(&self, id: TaskId) -> Option<OwnedMutexGuard<()>> {
        let lock = Arc::clone(self.map().entry(id).or_default());
        lock.try_lock_owned().ok()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<TaskId, Lock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_call_at_a_time_changes_a_task() {
        let (locks, id) = (Locks::default(), TaskId::from_key("a"));
        let first = locks.lock(id).await;
        assert!(locks.try_lock(id).is_none());
        let second = locks.lock(id);
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        assert!(locks.try_lock(id).is_some());
        let _other = locks.lock(TaskId::from_key("b")).await;
        assert_eq!(locks.map().len(), 1);
    }
}
