//! The runs of tasks: their slots, their starts, and one loop in memory that enforces their limits. After a restart it
//! begins again with the tasks that the agent server lists as running.

mod begin;
mod locks;
mod slots;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep};

pub(crate) use self::begin::{Begun, has_steps_left, refuse_leftovers, use_model, wait_for_start};
use self::locks::Locks;
pub(crate) use self::slots::Slot;
use self::slots::Slots;
use crate::api::{
    AgentServer, ApiFailure, ApiResult, Backend, Conversation, Execution, MAX_IDS, Servers, TaskId,
};
use crate::tags::{ConversationTags, StopReason};

/// The interval at which running tasks are checked.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a list of tasks, also one that failed, as a multiple of the time that it took.
const LIST_PAUSE: u32 = 20;
/// Conversations in one response.
const PAGE_SIZE: u32 = 100;
/// The interval at which a call asks again for a slot.
const SLOT_INTERVAL: Duration = Duration::from_millis(300);
/// The time from the end of a run until its deadline is removed: the call that stopped it may set a tag first, and
/// one that starts the next run may take as long.
const ENDED_GRACE: Duration = Duration::from_secs(15);

/// The slots and the limits of tasks that run at the agent server.
pub(crate) struct Runner {
    servers: Servers,
    /// The limit of tasks that run at once.
    max_parallel: usize,
    slots: Slots,
    /// The runs that may have a deadline, and when each was last seen at work.
    limited: Mutex<HashMap<TaskId, Instant>>,
    /// The time from which the running tasks may be listed again.
    next_list: Mutex<Instant>,
    /// The tasks that begin as soon as they can.
    beginning: Mutex<HashSet<TaskId>>,
    /// All tags of a task are replaced at once, so one call at a time changes them.
    pub(crate) locks: Locks,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// Does not connect.
    pub(crate) fn new(servers: Servers, max_parallel: u32) -> Self {
        Self {
            servers,
            max_parallel: max_parallel as usize,
            slots: Slots::default(),
            limited: Mutex::default(),
            next_list: Mutex::new(Instant::now()),
            beginning: Mutex::default(),
            locks: Locks::default(),
        }
    }

    /// Enforces limits until the server stops.
    pub(crate) async fn enforce_limits(self: &Arc<Self>) {
        loop {
            if let Err(failure) = self.tick().await {
                tracing::debug!(?failure, "cannot check the limits of tasks");
            }
            sleep(TICK_INTERVAL).await;
        }
    }

    /// Takes a slot for a task that starts.
    ///
    /// # Errors
    /// All are taken ([`ApiFailure::Full`]), or the agent server does not answer.
    pub(crate) async fn take_slot(&self) -> ApiResult<Slot> {
        let before = self.slots.starting();
        let (running, max) = match self.servers.backend().await? {
            Backend::Agent(server) => (count_running(&server).await?, self.max_parallel),
            // Tasks in sandboxes need no slot.
            Backend::App(_) => (0, usize::MAX),
        };
        let slot = self.slots.try_take(running, before, max);
        slot.ok_or(ApiFailure::Full)
    }

    /// Takes a slot as soon as there is one, but not after `until`.
    pub(crate) async fn take_slot_by(&self, until: Instant) -> ApiResult<Slot> {
        loop {
            let slot = self.take_slot().await;
            let is_full = matches!(&slot, Err(failure) if failure.is_full());
            if !may_retry(is_full, until).await {
                return slot;
            }
        }
    }

    /// Adds a run that starts, so that its deadline is removed at its end.
    pub(crate) fn watch(&self, id: TaskId) {
        lock(&self.limited).insert(id, Instant::now());
    }

    /// Stops a task and tags it with the reason. If only the tag fails, that is no error.
    pub(crate) async fn stop(
        &self,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
    ) -> ApiResult<()> {
        self.stop_locked(server, id, reason, self.locks.lock(id))
            .await
    }

    /// Stops a task, and then tags it with the reason under the lock.
    async fn stop_locked(
        &self,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
        lock: impl Future<Output = OwnedMutexGuard<()>>,
    ) -> ApiResult<()> {
        server.interrupt(id).await?;
        // Tags last, because they cannot be set during a step.
        let _lock = lock.await;
        let mut task = server.conversation(id).await;
        // A start that had the lock may have run it after that.
        if matches!(&task, Ok(task) if task.execution_status == Execution::Running) {
            server.interrupt(id).await?;
            task = server.conversation(id).await;
        }
        // It has begun to ask for a permission meanwhile; an interrupt leaves it waiting.
        if matches!(&task, Ok(task) if task.execution_status == Execution::WaitingForConfirmation) {
            server.respond(id, false, "The task was stopped.").await?;
            task = server.conversation(id).await;
        }
        let tagged = async { tag_stopped(server, &task?, reason).await };
        if let Err(failure) = tagged.await {
            tracing::warn!(task = %id, ?failure, "cannot tag why the task was stopped");
        }
        Ok(())
    }

    /// Tags a stopped task with the reason.
    pub(crate) async fn tag_stopped(
        &self,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
    ) -> ApiResult<()> {
        let _lock = self.locks.lock(id).await;
        tag_stopped(server, &server.conversation(id).await?, reason).await
    }

    /// Stops the tasks that have exceeded their limits.
    async fn tick(self: &Arc<Self>) -> ApiResult<()> {
        // OpenHands enforces its own limits in sandboxes.
        let Backend::Agent(server) = &self.servers.backend().await? else {
            return Ok(());
        };
        let running = self.running(server).await?.into_iter().map(|task| {
            let cost = task.stats.cost();
            (task.id, ConversationTags::new(task.tags), cost)
        });
        let running: Vec<_> = running.collect();
        let limited = running.iter().filter(|task| task.1.deadline().is_some());
        for id in self.ended(limited.map(|task| task.0)) {
            if !self.end_run(server, id).await.unwrap_or(false) {
                self.watch(id);
            }
        }
        for (id, tags, cost) in running {
            let reason = if tags.is_overdue() {
                StopReason::Time
            } else if tags.cost().is_some_and(|max| cost > max) {
                StopReason::Cost
            } else if let Some(max) = tags.steps() {
                match server.count_actions(id).await {
                    Ok(steps) if steps > max => StopReason::Steps,
                    Ok(_) => continue,
                    Err(failure) => {
                        tracing::debug!(task = %id, ?failure, "cannot count its steps");
                        continue;
                    }
                }
            } else {
                continue;
            };
            // A call that holds it may wait for minutes, and other tasks for this one; the next tick stops it.
            let Some(lock) = self.locks.try_lock(id) else {
                continue;
            };
            tracing::info!(task = %id, ?reason, "task stopped, its budget is used up");
            if let Err(failure) = self.stop_locked(server, id, reason, async { lock }).await {
                tracing::warn!(task = %id, ?failure, "cannot stop the task");
            }
        }
        Ok(())
    }

    /// The running tasks. Those of other servers are listed only as often as that takes a part of the time of an agent
    /// server that is slow at it.
    async fn running(&self, server: &AgentServer) -> ApiResult<Vec<Conversation>> {
        if count_running(server).await? == 0 {
            return Ok(Vec::new());
        }
        let known: Vec<TaskId> = lock(&self.limited).keys().copied().collect();
        let (began, next) = (Instant::now(), *lock(&self.next_list));
        if began >= next || known.len() > MAX_IDS {
            let listed = server.conversations(Some(Execution::Running), PAGE_SIZE, None);
            let listed = listed.await;
            *lock(&self.next_list) = Instant::now() + began.elapsed() * LIST_PAUSE;
            match listed {
                Err(failure) if known.len() <= MAX_IDS => {
                    tracing::debug!(?failure, "cannot list the running tasks");
                }
                listed => return Ok(listed?.items),
            }
        }
        let mut running = match known.is_empty() {
            true => Vec::new(),
            false => server.conversations_by_id(&known).await?,
        };
        running.retain(|task| task.execution_status == Execution::Running);
        Ok(running)
    }

    /// Returns the runs that ended some time ago. `running` are the current ones.
    fn ended(&self, running: impl Iterator<Item = TaskId>) -> Vec<TaskId> {
        let (now, mut limited) = (Instant::now(), lock(&self.limited));
        limited.extend(running.map(|id| (id, now)));
        let ended = limited.extract_if(|_, last| now.duration_since(*last) > ENDED_GRACE);
        ended.map(|(id, _)| id).collect()
    }

    /// Removes the deadline of a run that has ended: it must not stop a later run by another client. Returns false if
    /// another call changes the task, or it does not stand still.
    async fn end_run(self: &Arc<Self>, server: &AgentServer, id: TaskId) -> ApiResult<bool> {
        let Some(_lock) = self.locks.try_lock(id) else {
            return Ok(false);
        };
        let task = match server.conversation(id).await {
            Err(failure) if failure.is_unknown_task() => return Ok(true),
            task => task?,
        };
        if task.execution_status == Execution::Running {
            return Ok(false);
        }
        let tags = ConversationTags::from_task(&task);
        if has_steps_left(server, &task, &tags).await? {
            self.begin_later(id);
        } else if tags.as_tags() != &task.tags {
            server.set_tags(id, tags.as_tags()).await?;
        }
        Ok(true)
    }
}

async fn count_running(server: &AgentServer) -> ApiResult<usize> {
    let count = server.count_conversations(Execution::Running).await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Returns true after a pause, if all slots were taken and there is time for another attempt before `until`.
pub(crate) async fn may_retry(is_full: bool, until: Instant) -> bool {
    let may = is_full && Instant::now() + SLOT_INTERVAL < until;
    if may {
        sleep(SLOT_INTERVAL).await;
    }
    may
}

/// Tags a stopped task with the reason. The caller holds its lock.
pub(crate) async fn tag_stopped(
    server: &AgentServer,
    task: &Conversation,
    reason: StopReason,
) -> ApiResult<()> {
    let mut tags = ConversationTags::from_task(task);
    tags.mark_stopped(reason);
    server.set_tags(task.id, tags.as_tags()).await
}
