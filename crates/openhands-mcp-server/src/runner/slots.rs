//! Slots for tasks that run at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of tasks that this server starts just now.
#[derive(Clone, Default)]
pub(super) struct Slots(Arc<Mutex<usize>>);

/// The slot of a task that starts. It is dropped when the agent server counts the task as running, or when the start
/// has failed.
pub(crate) struct Slot(Slots);

impl Slots {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn starting(&self) -> usize {
        *self.lock()
    }

    /// Takes a slot, if fewer than `max` tasks run or start. Of those that started before the `running` ones were
    /// counted (`before`), some may not be among them.
    pub(super) fn try_take(&self, running: usize, before: usize, max: usize) -> Option<Slot> {
        let mut starting = self.lock();
        let is_free = running.saturating_add(before.max(*starting)) < max;
        is_free.then(|| {
            *starting += 1;
            Slot(self.clone())
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_that_starts_takes_a_slot() {
        let slots = Slots::default();
        let first = slots.try_take(0, 0, 2).unwrap();
        assert!(slots.try_take(1, 1, 2).is_none());
        let second = slots.try_take(0, 1, 2).unwrap();
        drop((first, second));
        // They had started when the running ones were counted.
        assert!(slots.try_take(0, 2, 2).is_none());
        assert_eq!(slots.starting(), 0);
        assert!(slots.try_take(1, 0, 2).is_some());
    }
}
