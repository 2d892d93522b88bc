//! The slots for tasks that run at once, and the runs that ended in them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::api::TaskId;

/// After its start, until the agent server says that a task runs.
const START_GRACE: Duration = Duration::from_secs(2);
/// After the end of a run, until its deadline is forgotten: whoever ended it may tag it.
const FINISHED_GRACE: Duration = Duration::from_secs(15);

/// The slots that tasks take which the agent server does not yet say to be running.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<TaskId, Instant>>);

impl Slots {
    /// Takes a slot for the task, if fewer than `max` are taken by those that run and those that
    /// were just started.
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

    /// Gives the slot back of a task that did not start after all.
    pub(super) fn give_back(&self, id: TaskId) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.remove(&id);
    }
}

/// The runs that have a deadline, and when each was last seen to run.
#[derive(Default)]
pub(super) struct LimitedRuns(Mutex<HashMap<TaskId, Instant>>);

impl LimitedRuns {
    /// Returns those that have not run for a while; those in `running` do now.
    pub(super) fn ended(&self, running: &HashSet<TaskId>) -> Vec<TaskId> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        seen.extend(running.iter().map(|id| (*id, now)));
        let ended = seen.extract_if(|_, last| now.duration_since(*last) > FINISHED_GRACE);
        ended.map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_once() {
        let slots = Slots::default();
        let [a, b, c] = ["a", "b", "c"].map(TaskId::from_key);
        assert!(slots.take(a, &HashSet::new(), 2));
        // It is started and seen to run: one slot.
        assert!(slots.take(b, &HashSet::from([a]), 2));
        assert!(!slots.take(c, &HashSet::from([a]), 2));
        slots.give_back(b);
        assert!(slots.take(c, &HashSet::from([a]), 2));
    }
}
