//! Slots for tasks that run at once, and runs with a deadline.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use openhands_api::TaskId;

/// The time from the start of a task until the agent server lists it as running.
const START_GRACE: Duration = Duration::from_secs(2);
/// The time from the end of a run until its deadline is removed: the client that stopped it may set a
/// tag first.
const FINISHED_GRACE: Duration = Duration::from_secs(15);

/// The slots of started tasks that the agent server does not list as running yet.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<TaskId, Instant>>);

impl Slots {
    /// Takes a slot for the task, if running and just started tasks take fewer than `max`.
    pub(super) fn take(&self, id: TaskId, running: &HashSet<TaskId>, max: usize) -> bool {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        started.retain(|_, since| now.duration_since(*since) < START_GRACE);
        let others = started.keys().filter(|id| !running.contains(id)).count();
        let free = running.len() + others < max;
        if free {
            started.insert(id, now);
        }
        free
    }

    /// Releases the slot of a task that could not be started.
    pub(super) fn give_back(&self, id: TaskId) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.remove(&id);
    }
}

/// The runs that have a deadline, and the time at which each was last seen running.
#[derive(Default)]
pub(super) struct LimitedRuns(Mutex<HashMap<TaskId, Instant>>);

impl LimitedRuns {
    /// Returns the runs that ended some time ago. `running` are the current ones.
    pub(super) fn ended(&self, running: &HashSet<TaskId>) -> Vec<TaskId> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        seen.extend(running.iter().map(|id| (*id, now)));
        let ended = seen.extract_if(|_, last| now.duration_since(*last) > FINISHED_GRACE);
        ended.map(|(id, _)| id).collect()
    }

    /// Returns the run again some time later, if it does not run then.
    pub(super) fn retry(&self, id: TaskId) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(id, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_and_running_task_takes_one_slot() {
        let slots = Slots::default();
        let [a, b, c] = ["a", "b", "c"].map(TaskId::from_key);
        assert!(slots.take(a, &HashSet::new(), 2));
        // Task a is started and listed as running: one slot.
        assert!(slots.take(b, &HashSet::from([a]), 2));
        assert!(!slots.take(c, &HashSet::from([a]), 2));
        slots.give_back(b);
        assert!(slots.take(c, &HashSet::from([a]), 2));
    }
}
