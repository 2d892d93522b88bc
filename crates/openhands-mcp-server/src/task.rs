//! A task as it is at one moment.

use crate::api::{Action, AgentServer, Conversation, Execution, Failure, RunError, kind};
use crate::notes::Stopped;
use crate::status::{Evidence, TaskStatus, Verdict};
use crate::stop::Stop;
use crate::task_id::TaskId;
use crate::{clock, excerpt, steps};

/// Bytes of the agent's answer; with the output below and the changed files, an answer stays under
/// 2,000 tokens.
const MAX_RESULT: usize = 4_000;
/// Bytes of the last command's output: its end, where the outcome is.
const MAX_OUTPUT: usize = 1_500;

/// What is known about a task.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) verdict: Verdict,
    pub(crate) conversation: Conversation,
    /// Actions that the agent has taken.
    pub(crate) steps: u64,
    last_action: Option<Action>,
    /// What was done since the last look, each in one line.
    pub(crate) news: Vec<String>,
}

/// What a task has brought so far.
pub(crate) struct Outcome {
    /// What the agent said last.
    pub(crate) result: Option<String>,
    /// What its last command printed.
    pub(crate) last_output: Option<String>,
}

impl Task {
    /// Looks at the task for the first time.
    pub(crate) async fn read(server: &AgentServer, id: TaskId) -> Result<Self, Failure> {
        let conversation = server.conversation(id).await?;
        let last_action: Option<Action> = server.last_event(id, kind::ACTION).await?;
        let steps = match &last_action {
            Some(action) => server.count_before(id, action).await? + 1,
            None => 0,
        };
        let (conversation, verdict) = judge(server, id, conversation, steps).await?;
        Ok(Self {
            id,
            verdict,
            conversation,
            steps,
            news: last_action.iter().map(steps::action).collect(),
            last_action,
        })
    }

    /// Looks at it again.
    pub(crate) async fn look_again(&mut self, server: &AgentServer) -> Result<(), Failure> {
        let conversation = server.conversation(self.id).await?;
        self.news.clear();
        loop {
            let actions = server
                .actions_after(self.id, self.last_action.as_ref())
                .await?;
            self.news.extend(actions.iter().map(steps::action));
            self.steps += actions.len() as u64;
            match actions.into_iter().next_back() {
                Some(last) => self.last_action = Some(last),
                None => break,
            }
        }
        (self.conversation, self.verdict) =
            judge(server, self.id, conversation, self.steps).await?;
        Ok(())
    }

    /// What the task is doing.
    pub(crate) fn status(&self) -> TaskStatus {
        self.verdict.status
    }

    /// The agent asks whether it may do its last action.
    pub(crate) fn is_asking(&self) -> bool {
        self.verdict.status == TaskStatus::WaitingForConfirmation
    }

    /// What the agent did last, in one line.
    pub(crate) fn last_action(&self) -> Option<String> {
        self.last_action.as_ref().map(steps::action)
    }

    /// What the task has brought so far: it need not have ended.
    pub(crate) async fn outcome(&self, server: &AgentServer) -> Result<Outcome, Failure> {
        let mut said = server.final_response(self.id).await?;
        if said.trim().is_empty() {
            said = self.thought();
        }
        let printed = server.last_output(self.id).await?.unwrap_or_default();
        let some = |text: String| (!text.trim().is_empty()).then_some(text);
        Ok(Outcome {
            result: some(excerpt::head(&said, MAX_RESULT)),
            last_output: some(excerpt::tail(&printed, MAX_OUTPUT)),
        })
    }

    /// What the agent said while it took its last action.
    fn thought(&self) -> String {
        let thought = self.last_action.iter().flat_map(|action| &action.thought);
        thought.map(|part| part.text.as_str()).collect()
    }
}

async fn judge(
    server: &AgentServer,
    id: TaskId,
    mut conversation: Conversation,
    steps: u64,
) -> Result<(Conversation, Verdict), Failure> {
    let mut worked = steps > 0;
    if conversation.execution_status == Execution::Idle {
        // An agent that answers without acting takes no steps.
        worked = worked || server.count_messages(id).await? > 0;
        // What it did may be younger than the state: it is idle if it still is.
        if worked {
            conversation = server.conversation(id).await?;
        }
    }
    let verdict = Verdict::of(&Evidence {
        execution: conversation.execution_status,
        worked,
        max_iterations: conversation.max_iterations,
        stop: stop(server, id, conversation.execution_status).await?,
        waits: conversation.notes.waits(),
        stopped: conversation
            .notes
            .stopped()
            .or_else(|| overdrawn(&conversation)),
        quiet: clock::seconds_since(&conversation.updated_at),
    });
    Ok((conversation, verdict))
}

/// It was stopped for what it used up, and that is not noted yet.
fn overdrawn(task: &Conversation) -> Option<Stopped> {
    if task.execution_status != Execution::Paused {
        return None;
    }
    let deadline = task.notes.deadline()?;
    let cost = task.stats.cost();
    if task.notes.cost().is_some_and(|most| cost > most) {
        return Some(Stopped::Cost);
    }
    (clock::now() > deadline).then_some(Stopped::Time)
}

/// How the run came to stand still, where the state alone does not say it.
async fn stop(
    server: &AgentServer,
    id: TaskId,
    execution: Execution,
) -> Result<Option<Stop>, Failure> {
    match execution {
        Execution::Error => {
            let (broke, lost) = tokio::try_join!(
                server.last_time(id, kind::RUN_ERROR),
                server.last_restart(id),
            )?;
            if lost > broke {
                return Ok(Some(Stop::Restart));
            }
            let error: Option<RunError> = server.last_event(id, kind::RUN_ERROR).await?;
            Ok(error.map(Stop::Broke))
        }
        Execution::Paused => {
            let (interrupted, paused) = tokio::try_join!(
                server.last_time(id, kind::INTERRUPT),
                server.last_time(id, kind::PAUSE),
            )?;
            Ok((interrupted > paused).then_some(Stop::Interrupt))
        }
        _ => Ok(None),
    }
}
