//! The queue of tasks that wait for a slot or for their repository.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::api::TaskId;

/// The waiting tasks, first come first served, and when each may start.
#[derive(Default)]
pub(super) struct Queue(Mutex<VecDeque<(TaskId, Instant)>>);

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(TaskId, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the task at the end, unless it is queued already.
    pub(super) fn push(&self, id: TaskId) {
        self.push_after(id, Duration::ZERO);
    }

    /// Adds a task that may start after this time.
    pub(super) fn push_after(&self, id: TaskId, delay: Duration) {
        let mut waiting = self.lock();
        if waiting.iter().all(|(queued, _)| *queued != id) {
            waiting.push_back((id, Instant::now() + delay));
        }
    }

    pub(super) fn remove(&self, id: TaskId) {
        self.lock().retain(|(other, _)| *other != id);
    }

    pub(super) fn contains(&self, id: TaskId) -> bool {
        self.lock().iter().any(|(queued, _)| *queued == id)
    }

    /// The queued tasks that may start, in their order.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        let now = Instant::now();
        let waiting = self.lock();
        let due = waiting.iter().filter(|(_, from)| *from <= now);
        due.map(|(id, _)| *id).collect()
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
        queue.push_after(ids[0], Duration::from_secs(60));
        assert!(queue.contains(ids[0]) && queue.ids() == ids[1..]);
    }
}
