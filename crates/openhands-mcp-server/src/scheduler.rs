//! Scheduling without any caller: waiting tasks get their turn, budgets are enforced.
//!
//! All of it is decided by the tags of the conversations themselves. What is remembered here only
//! saves looking at all of them; a restart, or another replica, finds the rest.

mod queue;
mod slots;

use std::time::Duration;

use upstream::time;

use self::queue::Queue;
use self::slots::{LimitedRuns, Slots};
use crate::api::{AgentServer, Backend, Execution, Failure, ListedConversation, Servers, TaskId};
use crate::tags::{ConversationTags, StopReason, WaitsFor};
use crate::workspace::changes::printed_tree;

/// Between two looks at what runs and what waits.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// Ticks between two searches for tasks that wait and are not known here.
const SEARCH_TICKS: u32 = 300;
/// In which a task that was created must be told what to do; a repeated call does that, too.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(300);
/// Between the tag that a task runs and its run, at most.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Conversations in one answer, and answers that are read in one search.
const PAGE: u32 = 100;
const MAX_PAGES: usize = 20;

/// The tasks that wait or run, as far as they are known here.
pub(crate) struct Scheduler {
    servers: Servers,
    /// Tasks that run at once before others wait.
    max_parallel: usize,
    queue: Queue,
    slots: Slots,
    limited: LimitedRuns,
}

/// The end of a turn of a waiting task.
enum Turn {
    /// It runs, or waits no more.
    Over,
    /// Its repository is not there yet.
    NotYet,
    /// All slots are taken, and so there is none for those behind it.
    Full,
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
        }
    }

    /// Schedules until the server stops.
    pub(crate) async fn run(&self) {
        let mut ticks = 0;
        loop {
            if let Err(failure) = self.tick(ticks % SEARCH_TICKS == 0).await {
                tracing::debug!(?failure, "cannot schedule the tasks");
                // What was not found must be searched for again.
                ticks = 0;
            } else {
                ticks += 1;
            }
            tokio::time::sleep(TICK_INTERVAL).await;
        }
    }

    /// Puts the task into the queue.
    pub(crate) fn enqueue(&self, id: TaskId) {
        self.queue.push(id);
    }

    /// Returns true if the task is known to wait.
    pub(crate) fn is_queued(&self, id: TaskId) -> bool {
        self.queue.contains(id)
    }

    /// Takes a slot for the task among those that run, as far as this server limits them.
    pub(crate) async fn take_slot(&self, id: TaskId) -> Result<bool, Failure> {
        let Backend::Agent(server) = self.servers.backend().await? else {
            return Ok(true);
        };
        let running = running(&server).await?;
        let running = running.iter().map(|task| task.id).collect();
        Ok(self.slots.take(id, &running, self.max_parallel))
    }

    /// Gives the slot back of a task that did not start after all.
    pub(crate) fn give_back_slot(&self, id: TaskId) {
        self.slots.give_back(id);
    }

    /// Lets the agent go on if there is a slot, else tags the task as waiting; true if it runs.
    pub(crate) async fn run_or_wait(
        &self,
        server: &AgentServer,
        id: TaskId,
        tags: &mut ConversationTags,
    ) -> Result<bool, Failure> {
        if self.take_slot(id).await? {
            // First, because no tag can be set while a step is under way.
            tags.begin();
            server.set_tags(id, tags.as_tags()).await?;
            match server.run(id).await {
                Ok(()) => return Ok(true),
                Err(failure) if failure.is_full() => self.slots.give_back(id),
                Err(failure) => {
                    self.slots.give_back(id);
                    tags.end();
                    server.set_tags(id, tags.as_tags()).await?;
                    return Err(failure);
                }
            }
        }
        if tags.waits_for() != Some(WaitsFor::Slot) {
            tags.wait_for_slot();
            server.set_tags(id, tags.as_tags()).await?;
        }
        Ok(false)
    }

    /// Stops a task and tags it with the reason. That it stops matters more than that it is known
    /// why.
    pub(crate) async fn stop(
        &self,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
    ) -> Result<(), Failure> {
        self.queue.remove(id);
        server.interrupt(id).await?;
        // Only now: no tag can be set while a step is under way.
        if let Err(failure) = tag_stopped(server, id, reason).await {
            tracing::warn!(task = %id, ?failure, "cannot tag why the task was stopped");
        }
        Ok(())
    }

    async fn tick(&self, search: bool) -> Result<(), Failure> {
        // In sandboxes no task waits for a slot, and OpenHands' own limits hold.
        if let Backend::Agent(server) = self.servers.backend().await? {
            if search {
                for still in [Execution::Idle, Execution::Paused, Execution::Error] {
                    self.search(&server, still).await?;
                }
            }
            self.enforce_budgets(&server).await?;
        }
        for id in self.queue.ids() {
            match self.turn(id).await {
                Ok(Turn::Over) => self.queue.remove(id),
                Ok(Turn::NotYet) => {}
                Ok(Turn::Full) => break,
                Err(failure) if failure.is_no_task() => self.queue.remove(id),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Finds tasks that wait, among the newest of those that stand still.
    async fn search(&self, server: &AgentServer, execution: Execution) -> Result<(), Failure> {
        let mut page = None;
        let mut found = Vec::new();
        for _ in 0..MAX_PAGES {
            let conversations = server
                .conversations(Some(execution), PAGE, page.as_deref())
                .await?;
            for listed in conversations.items {
                let mut tags = ConversationTags::new(listed.tags);
                if tags.waits_for().is_some() {
                    found.push(listed.id);
                } else if execution == Execution::Idle && is_orphaned(&tags, &listed.updated_at) {
                    tags.wait_for_slot();
                    server.set_tags(listed.id, tags.as_tags()).await?;
                    found.push(listed.id);
                }
            }
            page = conversations.next_page_id;
            if page.is_none() {
                break;
            }
        }
        // They come newest first.
        found.into_iter().rev().for_each(|id| self.queue.push(id));
        Ok(())
    }

    /// Lets a task begin whose turn has come.
    async fn turn(&self, id: TaskId) -> Result<Turn, Failure> {
        let server = self.servers.at(id).await?;
        let conversation = server.conversation(id).await?;
        let mut tags = ConversationTags::new(conversation.tags);
        let Some(waits_for) = tags.waits_for() else {
            return Ok(Turn::Over);
        };
        match conversation.execution_status {
            execution if execution.is_still() => {}
            // Somebody else let it run. No tag can be set while it does.
            Execution::Running => return Ok(Turn::Over),
            _ => {
                tags.set_waits_for(None);
                server.set_tags(id, tags.as_tags()).await?;
                return Ok(Turn::Over);
            }
        }
        // Whoever created it was stopped before it was told what to do.
        if server.count_prompts(id).await? == 0 {
            let quiet = time::since(&conversation.updated_at);
            if quiet.is_some_and(|quiet| quiet > PROMPT_TIMEOUT) {
                tag_stopped(&server, id, StopReason::Cancelled).await?;
                return Ok(Turn::Over);
            }
            return Ok(Turn::NotYet);
        }
        if let WaitsFor::Repository(fetch) = waits_for {
            match server.ended(fetch).await? {
                None => return Ok(Turn::NotYet),
                Some(end) if end.exit_code == Some(0) => {
                    tags.set_base(printed_tree(end.text()).as_deref());
                    tags.set_waits_for(Some(WaitsFor::Slot));
                }
                Some(_) => {
                    tags.set_waits_for(None);
                    tags.set_stop_reason(Some(StopReason::NoRepository));
                    server.set_tags(id, tags.as_tags()).await?;
                    return Ok(Turn::Over);
                }
            }
        }
        let runs = self.run_or_wait(&server, id, &mut tags).await?;
        Ok(if runs { Turn::Over } else { Turn::Full })
    }

    /// Stops the tasks that have used up their budget.
    async fn enforce_budgets(&self, server: &AgentServer) -> Result<(), Failure> {
        let running = running(server).await?;
        let running = running.into_iter().map(|task| {
            let cost = task.stats.cost();
            (task.id, ConversationTags::new(task.tags), cost)
        });
        let running: Vec<_> = running.collect();
        let limited = running.iter().filter(|task| task.1.deadline().is_some());
        let limited = limited.map(|task| task.0).collect();
        for id in self.limited.ended(&limited) {
            forget_deadline(server, id).await?;
        }
        for (id, tags, cost) in running {
            let late = tags.is_overdue();
            let costly = tags.cost().is_some_and(|max| cost > max);
            if late || costly {
                let reason = if late {
                    StopReason::Time
                } else {
                    StopReason::Cost
                };
                tracing::info!(task = %id, ?reason, "task stopped, its budget is used up");
                if let Err(failure) = self.stop(server, id, reason).await {
                    tracing::warn!(task = %id, ?failure, "cannot stop the task");
                }
            }
        }
        Ok(())
    }
}

async fn running(server: &AgentServer) -> Result<Vec<ListedConversation>, Failure> {
    let running = server.conversations(Some(Execution::Running), PAGE, None);
    Ok(running.await?.items)
}

/// Forgets the deadline of a run that is over: a run that somebody else starts is not ours to end.
async fn forget_deadline(server: &AgentServer, id: TaskId) -> Result<(), Failure> {
    let conversation = match server.conversation(id).await {
        Err(failure) if failure.is_no_task() => return Ok(()),
        conversation => conversation?,
    };
    let mut tags = ConversationTags::new(conversation.tags);
    if conversation.execution_status == Execution::Running || tags.deadline().is_none() {
        return Ok(());
    }
    tags.end();
    server.set_tags(id, tags.as_tags()).await
}

/// Tags a task that stands still with the reason.
pub(crate) async fn tag_stopped(
    server: &AgentServer,
    id: TaskId,
    reason: StopReason,
) -> Result<(), Failure> {
    let mut tags = ConversationTags::new(server.conversation(id).await?.tags);
    tags.set_waits_for(None);
    tags.set_stop_reason(Some(reason));
    tags.end();
    server.set_tags(id, tags.as_tags()).await
}

/// Returns true for an idle task that was tagged as started by a server that crashed before it
/// started it.
fn is_orphaned(tags: &ConversationTags, updated_at: &str) -> bool {
    let quiet = time::since(updated_at);
    tags.deadline().is_some() && quiet.is_some_and(|quiet| quiet > START_TIMEOUT)
}
