//! The queue of tasks that wait for a slot or for their repository.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openhands_api::TaskId;

/// The waiting tasks, first come first served.
#[derive(Default)]
pub(super) struct Queue(Mutex<VecDeque<TaskId>>);

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<TaskId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the task at the end, unless it is queued already.
    pub(super) fn push(&self, id: TaskId) {
        let mut waiting = self.lock();
        if !waiting.contains(&id) {
            waiting.push_back(id);
        }
    }

    pub(super) fn remove(&self, id: TaskId) {
        self.lock().retain(|other| *other != id);
    }

    pub(super) fn contains(&self, id: TaskId) -> bool {
        self.lock().contains(&id)
    }

    /// All queued tasks, in their order.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        self.lock().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_first_come_first_served() {
        let queue = Queue::default();
        let ids = [TaskId::from_key("a"), TaskId::from_key("b")];
        ids.iter().for_each(|id| queue.push(*id));
        queue.push(ids[0]);
        assert_eq!(queue.ids(), ids);
        queue.remove(ids[0]);
        assert_eq!(queue.ids(), ids[1..]);
        assert!(queue.contains(ids[1]) && !queue.contains(ids[0]));
    }
}
