//! Waiting for a task to end, with a word to the caller about every step.

use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::OpenHands;
use crate::api::{Action, Execution, Failure, kind};
use crate::notes::Stopped;
use crate::task::Task;
use crate::task_id::TaskId;

/// Between two looks at a task: at most while nothing is heard of it, and after something was, which
/// may be told before it is stored; at most while all that happens is heard; and at least, because
/// models speak word by word.
const POLL: Duration = Duration::from_millis(500);
const HEARING_POLL: Duration = Duration::from_secs(5);
const GAP: Duration = Duration::from_millis(250);
/// At most before it was ever seen.
const ABSENT_POLL: Duration = Duration::from_secs(2);

/// What one look may take, however short the wait is.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Looks at a task that was just answered, and the time between them.
const LEAVING: u32 = 40;
const LEAVING_POLL: Duration = Duration::from_millis(100);

/// What was seen of a task until the wait was over.
pub(crate) struct Seen {
    /// The newest look that succeeded.
    pub(crate) task: Option<Task>,
    /// Why the last look failed.
    pub(crate) failure: Option<Failure>,
}

impl OpenHands {
    /// Follows a task that the caller has started. One that gives up on the call gives up on the
    /// task.
    ///
    /// # Errors
    /// When the caller gave up; the task is then stopped.
    pub(crate) async fn follow(
        &self,
        id: TaskId,
        until: Instant,
        call: &Call,
    ) -> Result<Seen, ToolError> {
        tokio::select! {
            biased;
            () = call.cancelled() => Err(self.abandon(id).await),
            seen = self.look_on(id, until, call) => Ok(seen),
        }
    }

    /// The same for one of several tasks: their steps, mixed, would tell nothing.
    ///
    /// # Errors
    /// When the caller gave up; the task is then stopped.
    pub(crate) async fn follow_quietly(
        &self,
        id: TaskId,
        until: Instant,
        call: &Call,
    ) -> Result<Seen, ToolError> {
        let nobody = Call::default();
        tokio::select! {
            biased;
            () = call.cancelled() => Err(self.abandon(id).await),
            seen = self.look_on(id, until, &nobody) => Ok(seen),
        }
    }

    /// Follows a task until it settles, but not beyond `until`. An agent server that is away for a
    /// while is waited for: its tasks survive its restarts.
    pub(crate) async fn look_on(&self, id: TaskId, until: Instant, call: &Call) -> Seen {
        let mut seen = Seen {
            task: None,
            failure: None,
        };
        call.progress(0.0, None, "The task was started.");
        // Whoever does not wait is told at least whether it runs or is in line.
        let first = Instant::now() + FIRST_LOOK;
        let mut ear = None;
        let mut pause = POLL;
        loop {
            let patience = if seen.task.is_none() {
                until.max(first)
            } else {
                until
            };
            match timeout_at(patience, self.look(id, &mut seen.task, call)).await {
                Ok(Ok(settled)) => {
                    seen.failure = None;
                    if settled {
                        return seen;
                    }
                }
                Ok(Err(failure)) => {
                    tracing::debug!(task = %id, ?failure, "cannot look at the task");
                    let transient = failure.is_transient();
                    seen.failure = Some(failure);
                    if !transient {
                        return seen;
                    }
                }
                Err(_) => return seen,
            }
            let looked = Instant::now();
            if looked + POLL >= until {
                return seen;
            }
            if seen.task.is_some() && ear.is_none() {
                pause = POLL;
            }
            // The last look is just before the end.
            let next = (looked + pause).min(until - POLL).max(looked + GAP);
            // Most tasks that are asked about have ended: only now is it worth a socket.
            if seen.task.is_none() {
                // Nobody is there, or not yet: a sandbox takes half a minute to start.
                sleep_until(next).await;
                pause = (2 * pause).min(ABSENT_POLL);
                continue;
            }
            let ear = ear.get_or_insert_with(|| self.ears.listen(&self.servers, id));
            tokio::select! {
                () = ear.heard() => {
                    pause = POLL;
                    sleep_until(looked + GAP).await;
                }
                () = sleep_until(next) => {
                    let most = if ear.is_open() { HEARING_POLL } else { POLL };
                    pause = (2 * pause).min(most);
                }
            }
        }
    }

    /// Waits a moment until the state of a task shows that its question was answered: until then it
    /// still says that it waits, for the action that was `asked` for.
    pub(crate) async fn leave_question(&self, id: TaskId, asked: Option<&Action>) {
        let Ok(server) = self.at(id).await else {
            return;
        };
        for _ in 0..LEAVING {
            let now = tokio::try_join!(
                server.conversation(id),
                server.last_event::<Action>(id, kind::ACTION),
            );
            let still = now.is_ok_and(|(task, last)| {
                task.execution_status == Execution::WaitingForConfirmation
                    && last.as_ref().map(Action::id) == asked.map(Action::id)
            });
            if !still {
                return;
            }
            tokio::time::sleep(LEAVING_POLL).await;
        }
    }

    /// Waits a moment until a task that was told to run has left the state that it stood in.
    pub(crate) async fn leave_state(&self, id: TaskId, state: Execution) {
        let Ok(server) = self.at(id).await else {
            return;
        };
        for _ in 0..LEAVING / 2 {
            let now = server.conversation(id).await;
            if now.is_ok_and(|task| task.execution_status != state) {
                return;
            }
            tokio::time::sleep(LEAVING_POLL).await;
        }
    }

    /// Looks once and tells the caller what is new; true once the task has settled.
    async fn look(
        &self,
        id: TaskId,
        task: &mut Option<Task>,
        call: &Call,
    ) -> Result<bool, Failure> {
        let server = self.at(id).await?;
        let task = match task {
            Some(task) => {
                task.look_again(&server).await?;
                task
            }
            None => task.insert(Task::read(&server, id).await?),
        };
        report(task, call);
        Ok(task.status().is_settled())
    }

    /// The caller gave up: so does the agent, as far as it can be reached.
    async fn abandon(&self, id: TaskId) -> ToolError {
        match self.stop(id, Stopped::Cancelled).await {
            Ok(()) => tracing::info!(task = %id, "task stopped, the caller gave up"),
            Err(failure) => tracing::warn!(task = %id, ?failure, "cannot stop the task"),
        }
        let message = format!("The call was cancelled, and so was task {id}.");
        ToolError::new(ToolErrorKind::Cancelled, message)
    }
}

fn report(task: &Task, call: &Call) {
    let first = task.steps - task.news.len() as u64;
    for (step, action) in (first + 1..).zip(&task.news) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a count of steps is far below 2^52"
        )]
        let done = step as f64;
        call.progress(done, None, &format!("Step {step}: {action}"));
    }
}
