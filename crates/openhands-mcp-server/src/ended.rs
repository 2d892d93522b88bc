//! Tasks that have ended, for the time in which the agent server does not answer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{Execution, TaskId};
use crate::tags::StopReason;

/// Tasks that are remembered; about 40 bytes each.
const MAX_TASKS: usize = 1_000;

/// The last state of a conversation.
pub(crate) type LastState = (Execution, Option<StopReason>);

/// The states of tasks that had ended when they were read last.
#[derive(Default)]
pub(crate) struct EndedTasks(Mutex<VecDeque<(TaskId, LastState)>>);

impl EndedTasks {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(TaskId, LastState)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the state of a task that has ended; `None` forgets a task that goes on.
    pub(crate) fn record(&self, id: TaskId, state: Option<LastState>) {
        let mut ended = self.lock();
        ended.retain(|(other, _)| *other != id);
        ended.extend(state.map(|state| (id, state)));
        if ended.len() > MAX_TASKS {
            ended.pop_front();
        }
    }

    /// The last state of the task, if it had ended.
    pub(crate) fn state(&self, id: TaskId) -> Option<LastState> {
        let ended = self.lock();
        let found = ended.iter().find(|(other, _)| *other == id);
        found.map(|(_, state)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_ended_tasks_are_remembered() {
        let (ended, id) = (EndedTasks::default(), TaskId::from_key("a"));
        let finished = Some((Execution::Finished, None));
        ended.record(id, finished);
        assert_eq!(ended.state(id), finished);
        ended.record(id, None);
        assert_eq!(ended.state(id), None);
        ended.record(id, finished);
        for _ in 0..MAX_TASKS {
            ended.record(TaskId::random(), finished);
        }
        assert_eq!(ended.state(id), None);
    }
}
