//! The scheduler: starts queued tasks and enforces budgets in the background.
//!
//! The tags of the conversations hold all of its state. What it keeps in memory only saves requests;
//! after a restart, or in another replica, a search finds the rest.

mod goes_on;
mod leftovers;
mod queue;
mod run;
mod running;
mod search;
mod slots;
mod starts;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::sleep;
use upstream::time;

pub(crate) use self::goes_on::{GoesOn, goes_on};
pub(crate) use self::leftovers::refuse_leftovers;
use self::queue::Queue;
pub(crate) use self::run::use_model;
use self::slots::{LimitedRuns, Slots};
use self::starts::Starts;
use crate::api::{AgentServer, ApiResult, Backend, Conversation, Execution, Servers, TaskId};
use crate::git::printed_id;
use crate::tags::{ConversationTags, StopReason, WaitsFor};

/// The interval at which running and waiting tasks are checked.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// After this time without an event a start counts as cut off: that of a waiting task without a prompt, which a
/// repeated call with its key prompts, and that of a run that was tagged, which is started again.
pub(crate) const CUT_OFF_AFTER: Duration = Duration::from_secs(10);
/// Conversations in one response.
const PAGE_SIZE: u32 = 100;

/// The queue of waiting tasks and the slots of running ones.
pub(crate) struct Scheduler {
    servers: Servers,
    /// The limit of tasks that run at once.
    max_parallel: usize,
    queue: Queue,
    slots: Slots,
    limited: LimitedRuns,
    /// The time from which the running tasks may be listed again.
    next_list: Mutex<Instant>,
    /// Told that the agent server may have lost starts.
    search_again: Notify,
    pub(crate) starts: Starts,
}

/// The result of an attempt to start a waiting task.
enum StartAttempt {
    /// The task runs, or does not wait any longer.
    Done,
    /// Its repository is not fetched yet.
    NotReady,
    /// All slots are taken, so the tasks behind it cannot start either.
    NoSlot,
}

impl Scheduler {
    /// Does not connect.
    pub(crate) fn new(servers: Servers, max_parallel: u32) -> Self {
        Self {
            servers,
            max_parallel: max_parallel as usize,
            queue: Queue::default(),
            slots: Slots::default(),
            limited: LimitedRuns::default(),
            next_list: Mutex::new(Instant::now()),
            search_again: Notify::new(),
            starts: Starts::default(),
        }
    }

    /// Schedules until the server stops.
    pub(crate) async fn run(&self) {
        // A slow search delays no start and no limit.
        tokio::join!(self.run_ticks(), self.run_searches());
    }

    async fn run_ticks(&self) {
        loop {
            if let Err(failure) = self.tick().await {
                tracing::debug!(?failure, "cannot schedule the tasks");
                self.search_again.notify_one();
            }
            sleep(TICK_INTERVAL).await;
        }
    }

    pub(crate) fn enqueue(&self, id: TaskId) {
        self.queue.push(id);
    }

    pub(crate) fn is_queued(&self, id: TaskId) -> bool {
        self.queue.contains(id)
    }

    /// Releases the slot of a task that could not be started.
    pub(crate) fn give_back_slot(&self, id: TaskId) {
        self.slots.give_back(id);
    }

    /// Stops a task and tags it with the reason. If only the tag fails, that is no error.
    pub(crate) async fn stop(
        &self,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
    ) -> ApiResult<()> {
        self.stop_locked(server, id, reason, self.starts.lock(id))
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
        self.queue.remove(id);
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

    async fn tick(&self) -> ApiResult<()> {
        // Tasks in sandboxes need no slot, and OpenHands enforces its own limits there.
        let Backend::Agent(server) = self.servers.backend().await? else {
            return self.start_queued().await;
        };
        // A start may take seconds.
        let (budgets, starts) = tokio::join!(self.enforce_budgets(&server), self.start_queued());
        budgets.and(starts)
    }

    /// Starts the queued tasks in their order, as many at once as there are slots. One that cannot start does not
    /// stop the others.
    async fn start_queued(&self) -> ApiResult<()> {
        let ids = self.queue.ids();
        let mut next = ids.as_slice();
        while !next.is_empty() {
            let at_once = self.free_slots().await?.clamp(1, next.len());
            let (now, later) = next.split_at(at_once);
            next = later;
            let attempts = join_all(now.iter().map(|id| self.try_start(*id))).await;
            for (id, attempt) in now.iter().zip(attempts) {
                match attempt {
                    Ok(StartAttempt::Done) => self.queue.remove(*id),
                    Ok(StartAttempt::NotReady) => {}
                    Ok(StartAttempt::NoSlot) => next = &[],
                    Err(failure) if failure.is_unknown_task() => self.queue.remove(*id),
                    Err(failure) => tracing::debug!(task = %id, ?failure, "cannot start it yet"),
                }
            }
        }
        Ok(())
    }

    /// Starts a waiting task, if it is ready and there is a slot.
    async fn try_start(&self, id: TaskId) -> ApiResult<StartAttempt> {
        // A call that holds it is starting the task, or checks or resumes it.
        let Some(_lock) = self.starts.try_lock(id) else {
            return Ok(StartAttempt::NotReady);
        };
        self.start_locked(id).await
    }

    /// Starts a task that has just been created and queued, unless there are only slots for those that wait before it.
    /// The caller holds its lock.
    pub(crate) async fn start_new(&self, id: TaskId) {
        if self.is_next(id).await && matches!(self.start_locked(id).await, Ok(StartAttempt::Done)) {
            self.queue.remove(id);
        }
    }

    /// Returns true if there are more free slots than tasks that wait before this one.
    pub(crate) async fn is_next(&self, id: TaskId) -> bool {
        let waiting = self.queue.ids();
        let before = waiting.iter().take_while(|other| **other != id).count();
        before == 0 || matches!(self.free_slots().await, Ok(free) if free > before)
    }

    async fn start_locked(&self, id: TaskId) -> ApiResult<StartAttempt> {
        let server = self.servers.for_task(id).await?;
        let mut conversation = server.conversation(id).await?;
        let mut tags = ConversationTags::new(conversation.tags.clone());
        if tags.waits_for().is_none() {
            match goes_on(&server, &conversation, &tags).await? {
                GoesOn::No => return Ok(StartAttempt::Done),
                GoesOn::Starts => return Ok(StartAttempt::NotReady),
                GoesOn::WithHelp => {
                    tags = ConversationTags::from_task(&conversation);
                    tags.wait_for_slot();
                    server.set_tags(id, tags.as_tags()).await?;
                    conversation.tags = tags.as_tags().clone();
                }
            }
        }
        let waits_for = tags.waits_for().unwrap_or(WaitsFor::Slot);
        match conversation.execution_status {
            execution if execution.is_stopped() && execution != Execution::Finished => {}
            // Another client has started it, or a start that was taken for cut off. It keeps its limits.
            Execution::Running => {
                tags.begin_run_after(None);
                server.set_tags(id, tags.as_tags()).await?;
                self.limited.add_own(id);
                return Ok(StartAttempt::Done);
            }
            _ => {
                tags.set_waits_for(None);
                server.set_tags(id, tags.as_tags()).await?;
                return Ok(StartAttempt::Done);
            }
        }
        // Without a prompt, the server that created it has crashed or has not sent the prompt yet.
        if server.count_messages(id, "user").await? == 0 {
            let quiet = time::since(&conversation.updated_at);
            let is_cut_off = quiet.is_some_and(|quiet| quiet > CUT_OFF_AFTER);
            if is_cut_off {
                tags.mark_stopped(StopReason::NoPrompt);
                server.set_tags(id, tags.as_tags()).await?;
                return Ok(StartAttempt::Done);
            }
            return Ok(StartAttempt::NotReady);
        }
        if let WaitsFor::Repository(fetch) = waits_for {
            match server.finished_script(fetch).await? {
                None => return Ok(StartAttempt::NotReady),
                Some(end) if end.exit_code == Some(0) => {
                    tags.set_base(printed_id(end.text()).as_deref());
                    tags.set_waits_for(Some(WaitsFor::Slot));
                }
                Some(_) => {
                    tags.mark_stopped(StopReason::NoRepository);
                    server.set_tags(id, tags.as_tags()).await?;
                    return Ok(StartAttempt::Done);
                }
            }
        }
        if let Some(model) = tags.model() {
            match use_model(&server, id, model, tags.has_run()).await {
                Err(failure) if !failure.is_transient() => {
                    tracing::warn!(task = %id, ?failure, "cannot set the model");
                    tags.mark_stopped(StopReason::NoModel);
                    server.set_tags(id, tags.as_tags()).await?;
                    return Ok(StartAttempt::Done);
                }
                set => set?,
            }
        }
        // Another server of ours may have cancelled or started it since then; the next tick looks again.
        let now = server.conversation(id).await?;
        let before = conversation.execution_status;
        if now.tags != conversation.tags || now.execution_status != before {
            return Ok(StartAttempt::NotReady);
        }
        let runs = self.run_or_wait(&server, id, &mut tags, before).await?;
        Ok(match runs {
            true => StartAttempt::Done,
            false => StartAttempt::NoSlot,
        })
    }

    /// Stops the tasks that have exceeded their budget.
    async fn enforce_budgets(&self, server: &AgentServer) -> ApiResult<()> {
        let running = self.running(server).await?.into_iter().map(|task| {
            let cost = task.stats.cost();
            (task.id, ConversationTags::new(task.tags), cost)
        });
        let running: Vec<_> = running.collect();
        let limited = running.iter().filter(|task| task.1.deadline().is_some());
        let limited = limited.map(|task| task.0).collect();
        for id in self.limited.ended(&limited) {
            if !self.end_run(server, id).await.unwrap_or(false) {
                self.limited.retry(id);
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
            let Some(lock) = self.starts.try_lock(id) else {
                continue;
            };
            tracing::info!(task = %id, ?reason, "task stopped, its budget is used up");
            if let Err(failure) = self.stop_locked(server, id, reason, async { lock }).await {
                tracing::warn!(task = %id, ?failure, "cannot stop the task");
            }
        }
        Ok(())
    }

    /// Removes the deadline of a run that has ended: it must not stop a later run by another client. A task that
    /// goes on is queued. Returns false if another call changes the task, or it starts.
    async fn end_run(&self, server: &AgentServer, id: TaskId) -> ApiResult<bool> {
        let Some(_lock) = self.starts.try_lock(id) else {
            return Ok(false);
        };
        let conversation = match server.conversation(id).await {
            Err(failure) if failure.is_unknown_task() => return Ok(true),
            conversation => conversation?,
        };
        let mut tags = ConversationTags::new(conversation.tags.clone());
        match goes_on(server, &conversation, &tags).await? {
            GoesOn::No => {}
            GoesOn::Starts => return Ok(false),
            GoesOn::WithHelp => {
                self.enqueue(id);
                return Ok(true);
            }
        }
        tags = ConversationTags::from_task(&conversation);
        if tags.as_tags() == &conversation.tags {
            return Ok(true);
        }
        server.set_tags(id, tags.as_tags()).await?;
        Ok(true)
    }

    /// Tags a stopped task with the reason.
    pub(crate) async fn tag_stopped(
        &self,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
    ) -> ApiResult<()> {
        let _lock = self.starts.lock(id).await;
        tag_stopped(server, &server.conversation(id).await?, reason).await
    }
}

async fn tag_stopped(
    server: &AgentServer,
    task: &Conversation,
    reason: StopReason,
) -> ApiResult<()> {
    let mut tags = ConversationTags::from_task(task);
    tags.mark_stopped(reason);
    server.set_tags(task.id, tags.as_tags()).await
}
