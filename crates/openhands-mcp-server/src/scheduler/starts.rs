//! The tasks that this server is starting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openhands_api::TaskId;
use tokio::sync::OwnedMutexGuard;

type Start = Arc<tokio::sync::Mutex<()>>;

/// The tasks that this server is starting, one call each.
#[derive(Default)]
pub(crate) struct Starts(Mutex<HashMap<TaskId, Start>>);

impl Starts {
    /// Waits until no other call starts the task.
    pub(crate) async fn lock(&self, id: TaskId) -> OwnedMutexGuard<()> {
        let start = {
            let mut starts = self.map();
            starts.retain(|_, start| Arc::strong_count(start) > 1);
            Arc::clone(starts.entry(id).or_default())
        };
        start.lock_owned().await
    }

    /// Returns true if a call of this server is starting the task.
    pub(crate) fn contains(&self, id: TaskId) -> bool {
        let starts = self.map();
        starts
            .get(&id)
            .is_some_and(|start| Arc::strong_count(start) > 1)
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
        assert!(starts.contains(id));
        let second = starts.lock(id);
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        assert!(!starts.contains(id));
        let _other = starts.lock(TaskId::from_key("b")).await;
        assert_eq!(starts.map().len(), 1);
    }
}
