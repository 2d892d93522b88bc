//! What goes on without any caller: tasks that wait get their turn, budgets are kept.
//!
//! All of it is decided by what is noted at the conversations themselves. What is remembered here
//! only saves looking at all of them; a restart, or another replica, finds the rest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::OpenHands;
use crate::api::{Execution, Failure, Listed};
use crate::clock;
use crate::notes::{Notes, Stopped, Waits};
use crate::prepare;
use crate::task_id::TaskId;

/// Between two looks at what runs and what waits.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between two looks for tasks that wait and are not known here.
const SEARCH: u32 = 300;
/// After its start, until the agent server says that a task runs.
const BEGINNING: Duration = Duration::from_secs(2);
/// After the end of a run, until its deadline is forgotten: whoever ended it may note something.
const OVER: Duration = Duration::from_secs(15);
/// Seconds in which a task that was made must be told what to do; a repeated call does that, too.
const UNTOLD: u64 = 300;
/// Conversations in one answer, and answers that are read in one search.
const PAGE: u32 = 100;
const PAGES: usize = 20;

/// The tasks that wait and are known here, first come first served.
#[derive(Default)]
pub(crate) struct Line {
    waiting: Mutex<VecDeque<TaskId>>,
    /// Those whose run has a deadline, and when they were last seen to run.
    limited: Mutex<HashMap<TaskId, Instant>>,
    /// Those that were begun a moment ago: the agent server does not say yet that they run.
    begun: Mutex<HashMap<TaskId, Instant>>,
}

impl Line {
    /// Notes that the task waits.
    pub(crate) fn join(&self, id: TaskId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.contains(&id) {
            waiting.push_back(id);
        }
    }

    fn leave(&self, id: TaskId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|other| *other != id);
    }

    /// Those that had a deadline and have not run for a while; those in `limited` do now.
    fn ended(&self, limited: &HashSet<TaskId>) -> Vec<TaskId> {
        let mut known = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        known.extend(limited.iter().map(|id| (*id, now)));
        let is_over = |seen: &Instant| now.duration_since(*seen) > OVER;
        let ended = known.iter().filter(|(_, seen)| is_over(seen));
        let ended: Vec<TaskId> = ended.map(|(id, _)| *id).collect();
        known.retain(|_, seen| !is_over(seen));
        ended
    }

    /// The task is known to wait.
    pub(crate) fn holds(&self, id: TaskId) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.contains(&id)
    }

    fn known(&self) -> Vec<TaskId> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().copied().collect()
    }

    /// Takes a place for the task, if fewer than `most` are taken by those that run and those that
    /// were just begun.
    fn take_place(&self, id: TaskId, running: &HashSet<TaskId>, most: usize) -> bool {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        begun.retain(|_, since| now.duration_since(*since) < BEGINNING);
        let others = begun.keys().filter(|id| !running.contains(id)).count();
        let free = running.len() + others < most;
        if free {
            begun.insert(id, now);
        }
        free
    }

    /// The task did not begin after all.
    pub(crate) fn give_back(&self, id: TaskId) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.remove(&id);
    }
}

/// What came of a task in the line.
enum Turn {
    /// It runs, or waits no more.
    Over,
    /// Its repository is not there yet.
    NotYet,
    /// There is no room, and so for none behind it.
    Full,
}

impl OpenHands {
    /// Does it until the server stops.
    pub(crate) async fn watch(&self) {
        let mut ticks = 0;
        loop {
            if let Err(failure) = self.tick(ticks % SEARCH == 0).await {
                tracing::debug!(?failure, "cannot watch the tasks");
                // What was not found must be looked for again.
                ticks = 0;
            } else {
                ticks += 1;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    async fn tick(&self, search: bool) -> Result<(), Failure> {
        // In sandboxes nothing waits for room, and OpenHands' own limits hold.
        let sandboxed = self.servers.app().await?.is_some();
        if search && !sandboxed {
            for still in [Execution::Idle, Execution::Paused, Execution::Error] {
                self.search(still).await?;
            }
        }
        if !sandboxed {
            self.keep_budgets().await?;
        }
        for id in self.line.known() {
            match self.turn(id).await {
                Ok(Turn::Over) => self.line.leave(id),
                Ok(Turn::NotYet) => {}
                Ok(Turn::Full) => break,
                Err(failure) if failure.is_no_task() => self.line.leave(id),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Finds tasks that wait, among the newest of those that stand still.
    async fn search(&self, execution: Execution) -> Result<(), Failure> {
        let server = self.agent_server().await?;
        let mut page = None;
        let mut found = Vec::new();
        for _ in 0..PAGES {
            let conversations = server
                .conversations(Some(execution), PAGE, page.as_deref())
                .await?;
            for listed in conversations.items {
                if listed.notes.waits().is_some() {
                    found.push(listed.id);
                } else if execution == Execution::Idle && is_forsaken(&listed) {
                    let mut notes = listed.notes;
                    notes.wait_for_room();
                    server.note(listed.id, &notes).await?;
                    found.push(listed.id);
                }
            }
            page = conversations.next_page_id;
            if page.is_none() {
                break;
            }
        }
        // They come newest first.
        found.into_iter().rev().for_each(|id| self.line.join(id));
        Ok(())
    }

    /// Takes a place for the task among those that run, as far as this server limits them.
    pub(crate) async fn has_room(&self, id: TaskId) -> Result<bool, Failure> {
        if self.servers.app().await?.is_some() {
            return Ok(true);
        }
        let server = self.agent_server().await?;
        let running = server
            .conversations(Some(Execution::Running), PAGE, None)
            .await?;
        let running = running.items.iter().map(|task| task.id).collect();
        let most = self.limits.parallel as usize;
        Ok(self.line.take_place(id, &running, most))
    }

    /// Lets a task begin whose turn has come.
    async fn turn(&self, id: TaskId) -> Result<Turn, Failure> {
        let server = self.at(id).await?;
        let conversation = server.conversation(id).await?;
        let mut notes = conversation.notes;
        let Some(waits) = notes.waits() else {
            return Ok(Turn::Over);
        };
        match conversation.execution_status {
            execution if execution.is_still() => {}
            // Somebody else let it run. Nothing can be noted while it does.
            Execution::Running => return Ok(Turn::Over),
            _ => {
                notes.set_waits(None);
                server.note(id, &notes).await?;
                return Ok(Turn::Over);
            }
        }
        // Whoever made it was stopped before it was told what to do.
        if server.count_prompts(id).await? == 0 {
            let quiet = clock::seconds_since(&conversation.updated_at);
            if quiet.is_some_and(|quiet| quiet > UNTOLD) {
                self.note_stopped(id, Stopped::Cancelled).await?;
                return Ok(Turn::Over);
            }
            return Ok(Turn::NotYet);
        }
        if let Waits::ForRepository(fetch) = waits {
            match server.ended(fetch).await? {
                None => return Ok(Turn::NotYet),
                Some(end) if end.exit_code == Some(0) => {
                    notes.set_base(prepare::base(end.text()).as_deref());
                    notes.set_waits(Some(Waits::ForRoom));
                }
                Some(_) => {
                    notes.set_waits(None);
                    notes.set_stopped(Some(Stopped::NoRepository));
                    server.note(id, &notes).await?;
                    return Ok(Turn::Over);
                }
            }
        }
        let ran = self.run_or_wait(id, &mut notes).await?;
        Ok(if ran { Turn::Over } else { Turn::Full })
    }

    /// Lets the agent go on if there is room, else notes that it waits; true if it runs.
    pub(crate) async fn run_or_wait(&self, id: TaskId, notes: &mut Notes) -> Result<bool, Failure> {
        let server = self.at(id).await?;
        if self.has_room(id).await? {
            // First, because nothing can be noted while a step is under way.
            notes.begin(clock::now());
            server.note(id, notes).await?;
            match server.run(id).await {
                Ok(()) => return Ok(true),
                Err(failure) if failure.is_full() => self.line.give_back(id),
                Err(failure) => {
                    self.line.give_back(id);
                    notes.end();
                    server.note(id, notes).await?;
                    return Err(failure);
                }
            }
        }
        if notes.waits() != Some(Waits::ForRoom) {
            notes.wait_for_room();
            server.note(id, notes).await?;
        }
        Ok(false)
    }

    /// Stops the tasks that have used up what they may.
    async fn keep_budgets(&self) -> Result<(), Failure> {
        let now = clock::now();
        let server = self.agent_server().await?;
        let running = server
            .conversations(Some(Execution::Running), PAGE, None)
            .await?;
        let limited = running.items.iter();
        let limited = limited.filter(|task| task.notes.deadline().is_some());
        let limited: HashSet<TaskId> = limited.map(|task| task.id).collect();
        for id in self.line.ended(&limited) {
            self.forget_deadline(id).await?;
        }
        for task in running.items {
            let late = task.notes.deadline().is_some_and(|deadline| now > deadline);
            let costly = task
                .notes
                .cost()
                .is_some_and(|most| task.stats.cost() > most);
            if late || costly {
                let why = if late { Stopped::Time } else { Stopped::Cost };
                let id = task.id;
                tracing::info!(task = %id, ?why, "task stopped, its budget is used up");
                if let Err(failure) = self.stop(id, why).await {
                    tracing::warn!(task = %id, ?failure, "cannot stop the task");
                }
            }
        }
        Ok(())
    }

    /// The run is over, and its deadline with it: one that somebody else starts is not ours to end.
    async fn forget_deadline(&self, id: TaskId) -> Result<(), Failure> {
        let server = self.at(id).await?;
        match server.conversation(id).await {
            Ok(task) if task.execution_status == Execution::Running => Ok(()),
            Ok(task) if task.notes.deadline().is_none() => Ok(()),
            Ok(mut task) => {
                task.notes.end();
                server.note(id, &task.notes).await
            }
            Err(failure) if failure.is_no_task() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Stops a task and notes why. That it stops matters more than that it is known why.
    pub(crate) async fn stop(&self, id: TaskId, why: Stopped) -> Result<(), Failure> {
        self.line.leave(id);
        self.at(id).await?.interrupt(id).await?;
        // Only now: nothing can be noted while a step is under way.
        if let Err(failure) = self.note_stopped(id, why).await {
            tracing::warn!(task = %id, ?failure, "cannot note why the task was stopped");
        }
        Ok(())
    }

    /// Notes that a task stands still and why.
    pub(crate) async fn note_stopped(&self, id: TaskId, why: Stopped) -> Result<(), Failure> {
        let server = self.at(id).await?;
        let mut notes = server.conversation(id).await?.notes;
        notes.set_waits(None);
        notes.set_stopped(Some(why));
        notes.end();
        server.note(id, &notes).await
    }
}

/// It was noted that it runs, but whoever noted it died before it did.
fn is_forsaken(task: &Listed) -> bool {
    /// Seconds between the note and the run, at most.
    const STARTING: u64 = 30;
    let quiet = clock::seconds_since(&task.updated_at);
    task.notes.deadline().is_some() && quiet.is_some_and(|quiet| quiet > STARTING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_once() {
        let line = Line::default();
        let [a, b, c] = ["a", "b", "c"].map(TaskId::of_key);
        assert!(line.take_place(a, &HashSet::new(), 2));
        // It is begun and seen to run: one place.
        assert!(line.take_place(b, &HashSet::from([a]), 2));
        assert!(!line.take_place(c, &HashSet::from([a]), 2));
        line.give_back(b);
        assert!(line.take_place(c, &HashSet::from([a]), 2));
    }

    #[test]
    fn a_line_is_first_come_first_served() {
        let line = Line::default();
        let ids = [TaskId::of_key("a"), TaskId::of_key("b")];
        ids.iter().for_each(|id| line.join(*id));
        line.join(ids[0]);
        assert_eq!(line.known(), ids);
        line.leave(ids[0]);
        assert_eq!(line.known(), ids[1..]);
    }
}
