//! The tasks that run now, and the slots that they leave.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use super::{PAGE_SIZE, Scheduler};
use crate::api::{AgentServer, ApiResult, Backend, Conversation, Execution, MAX_IDS, TaskId};

/// The pause after a list of tasks, also one that failed, as a multiple of the time that it took.
pub(super) const LIST_PAUSE: u32 = 20;

impl Scheduler {
    /// Takes a slot for the task. Returns false if all are taken.
    pub(crate) async fn take_slot(&self, id: TaskId) -> ApiResult<bool> {
        let Backend::Agent(server) = self.servers.backend().await? else {
            return Ok(true);
        };
        let (max, count) = (self.max_parallel, count_running(&server).await?);
        let mut is_taken = self.slots.take(id, count, &HashSet::new(), max);
        if !is_taken && count < max {
            let running = list_running(&server).await?;
            let running: HashSet<_> = running.iter().map(|task| task.id).collect();
            is_taken = self.slots.take(id, running.len(), &running, max);
        }
        if is_taken {
            self.limited.add_own(id);
        }
        Ok(is_taken)
    }

    /// The slots that no task has.
    pub(super) async fn free_slots(&self) -> ApiResult<usize> {
        let Backend::Agent(server) = self.servers.backend().await? else {
            return Ok(self.max_parallel);
        };
        Ok(self
            .max_parallel
            .saturating_sub(count_running(&server).await?))
    }

    /// The running tasks. Those of other servers are listed only as often as that takes a part of the time of an agent
    /// server that is slow at it.
    pub(super) async fn running(&self, server: &AgentServer) -> ApiResult<Vec<Conversation>> {
        if count_running(server).await? == 0 {
            return Ok(Vec::new());
        }
        let known = self.limited.ids();
        let (began, next) = (Instant::now(), *self.next_list());
        if began >= next || known.len() > MAX_IDS {
            let listed = list_running(server).await;
            *self.next_list() = Instant::now() + began.elapsed() * LIST_PAUSE;
            match listed {
                Err(failure) if known.len() <= MAX_IDS => {
                    tracing::debug!(?failure, "cannot list the running tasks");
                }
                listed => return listed,
            }
        }
        let mut running = match known.is_empty() {
            true => Vec::new(),
            false => server.conversations_by_id(&known).await?,
        };
        running.retain(|task| task.execution_status == Execution::Running);
        Ok(running)
    }

    fn next_list(&self) -> MutexGuard<'_, Instant> {
        self.next_list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn count_running(server: &AgentServer) -> ApiResult<usize> {
    let count = server.count_conversations(Execution::Running).await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

async fn list_running(server: &AgentServer) -> ApiResult<Vec<Conversation>> {
    let running = server.conversations(Some(Execution::Running), PAGE_SIZE, None);
    Ok(running.await?.items)
}
