//! Slots for tasks that run at once, and runs with a deadline.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::api::TaskId;

/// A task that was told to run has its slot for so long, if nobody sees it running.
const START_GRACE: Duration = Duration::from_secs(15);
/// A task that was seen running has its slot for so long, because a count of the running tasks may be older.
const COUNT_GRACE: Duration = Duration::from_secs(2);
/// The time from the end of a run until its deadline is removed: the client that stopped it may set a
/// tag first.
const FINISHED_GRACE: Duration = Duration::from_secs(15);
/// The same for a run that another server has started: it does that itself, unless it has crashed.
const FINISHED_GRACE_OF_OTHERS: Duration = Duration::from_secs(60);

/// The slots of started tasks that the agent server does not list as running yet, with the time until which they have
/// them.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<TaskId, Instant>>);

impl Slots {
    /// Takes a slot for the task, if the `count` of running tasks and those that were just started take fewer than
    /// `max`. `running` are those of them that are known.
    pub(super) fn take(
        &self,
        id: TaskId,
        count: usize,
        running: &HashSet<TaskId>,
        max: usize,
    ) -> bool {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        started.retain(|_, until| now < *until);
        let others = started.keys().filter(|id| !running.contains(id)).count();
        let free = count + others < max;
        if free {
            started.insert(id, now + START_GRACE);
        }
        free
    }

    /// The task has been seen running, so the agent server counts it.
    pub(super) fn has_begun(&self, id: TaskId) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = started.get_mut(&id) {
            *until = Instant::now() + COUNT_GRACE;
        }
    }

    /// Releases the slot of a task that could not be started.
    pub(super) fn give_back(&self, id: TaskId) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.remove(&id);
    }
}

/// The runs that have a deadline: for each the time at which it was last seen running, and whether this server has
/// started it.
#[derive(Default)]
pub(super) struct LimitedRuns(Mutex<HashMap<TaskId, (Instant, bool)>>);

impl LimitedRuns {
    /// Adds a run that this server starts.
    pub(super) fn add_own(&self, id: TaskId) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(id, (Instant::now(), true));
    }

    /// The known runs that have not ended for long.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.keys().copied().collect()
    }

    /// Returns the runs that ended some time ago. `running` are the current ones.
    pub(super) fn ended(&self, running: &HashSet<TaskId>) -> Vec<TaskId> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for id in running {
            seen.entry(*id).or_insert((now, false)).0 = now;
        }
        let ended = seen.extract_if(|_, (last, is_own)| {
            let grace = match is_own {
                true => FINISHED_GRACE,
                false => FINISHED_GRACE_OF_OTHERS,
            };
            now.duration_since(*last) > grace
        });
        ended.map(|(id, _)| id).collect()
    }

    /// Returns the run again some time later, if it does not run then.
    pub(super) fn retry(&self, id: TaskId) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(id, (Instant::now(), true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_and_running_task_takes_one_slot() {
        let slots = Slots::default();
        let [a, b, c] = ["a", "b", "c"].map(TaskId::from_key);
        let none = HashSet::new();
        assert!(slots.take(a, 0, &none, 2));
        assert!(!slots.take(b, 1, &none, 2));
        // Task a is started and listed as running: one slot.
        assert!(slots.take(b, 1, &HashSet::from([a]), 2));
        assert!(!slots.take(c, 1, &HashSet::from([a]), 2));
        slots.give_back(b);
        assert!(slots.take(c, 1, &HashSet::from([a]), 2));
    }
}
