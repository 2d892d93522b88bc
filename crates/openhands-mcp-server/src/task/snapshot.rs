//! A task as it is at one moment.

use upstream::redact::{redacted, redacted_code};
use upstream::text::{head, tail};
use upstream::time;

use super::outcome::{Evidence, TaskOutcome, TaskStatus};
use super::run_end::RunEnd;
use crate::api::{Action, AgentServer, Conversation, Execution, Failure, RunError, TaskId, kind};
use crate::events::summary;
use crate::tags::{ConversationTags, StopReason};

/// Bytes of the agent's answer; with the output below and the changed files, an answer stays under
/// 2,000 tokens.
const MAX_RESULT: usize = 4_000;
/// Bytes of the last command's output: its end, where the outcome is.
const MAX_OUTPUT: usize = 1_500;

/// A task as the agent server tells it.
pub(crate) struct TaskSnapshot {
    pub(crate) id: TaskId,
    pub(crate) outcome: TaskOutcome,
    pub(crate) conversation: Conversation,
    /// Actions that the agent has taken.
    pub(crate) steps: u64,
    last_action: Option<Action>,
    /// The actions since the last look, each in one line.
    pub(crate) news: Vec<String>,
}

/// The last words of a task's agent and of its commands.
pub(crate) struct LastWords {
    /// The last message of the agent.
    pub(crate) result: Option<String>,
    /// The output of its last command.
    pub(crate) last_output: Option<String>,
}

impl TaskSnapshot {
    /// Looks at the task for the first time.
    pub(crate) async fn read(server: &AgentServer, id: TaskId) -> Result<Self, Failure> {
        let conversation = server.conversation(id).await?;
        let last_action: Option<Action> = server.last_event(id, kind::ACTION).await?;
        let steps = match &last_action {
            Some(action) => server.count_before(id, action).await? + 1,
            None => 0,
        };
        let (conversation, outcome) = judge(server, id, conversation, steps).await?;
        Ok(Self {
            id,
            outcome,
            conversation,
            steps,
            news: last_action.iter().map(summary::action).collect(),
            last_action,
        })
    }

    /// Looks at it again.
    pub(crate) async fn refresh(&mut self, server: &AgentServer) -> Result<(), Failure> {
        let conversation = server.conversation(self.id).await?;
        self.news.clear();
        loop {
            let actions = server
                .actions_after(self.id, self.last_action.as_ref())
                .await?;
            self.news.extend(actions.iter().map(summary::action));
            self.steps += actions.len() as u64;
            match actions.into_iter().next_back() {
                Some(last) => self.last_action = Some(last),
                None => break,
            }
        }
        (self.conversation, self.outcome) =
            judge(server, self.id, conversation, self.steps).await?;
        Ok(())
    }

    /// The status of the task.
    pub(crate) fn status(&self) -> TaskStatus {
        self.outcome.status
    }

    /// The agent asks whether it may do its last action.
    pub(crate) fn is_asking(&self) -> bool {
        self.outcome.status == TaskStatus::WaitingForConfirmation
    }

    /// The last action of the agent, in one line.
    pub(crate) fn last_action(&self) -> Option<String> {
        self.last_action.as_ref().map(summary::action)
    }

    /// Reads the last words so far: the task need not have ended.
    pub(crate) async fn last_words(&self, server: &AgentServer) -> Result<LastWords, Failure> {
        let mut said = server.final_response(self.id).await?;
        if said.trim().is_empty() {
            said = self.thought();
        }
        let printed = server.last_output(self.id).await?.unwrap_or_default();
        let some = |text: String| (!text.trim().is_empty()).then_some(text);
        Ok(LastWords {
            result: some(head(&redacted_code(&said), MAX_RESULT)),
            last_output: some(tail(&redacted(&printed), MAX_OUTPUT)),
        })
    }

    /// The message of the agent with its last action.
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
) -> Result<(Conversation, TaskOutcome), Failure> {
    let mut worked = steps > 0;
    if conversation.execution_status == Execution::Idle {
        // An agent that answers without acting takes no steps.
        worked = worked || server.count_messages(id).await? > 0;
        // What it did may be younger than the state: it is idle if it still is.
        if worked {
            conversation = server.conversation(id).await?;
        }
    }
    let tags = ConversationTags::new(conversation.tags.clone());
    let outcome = TaskOutcome::from_evidence(&Evidence {
        execution: conversation.execution_status,
        worked,
        max_iterations: conversation.max_iterations,
        run_end: run_end(server, id, conversation.execution_status).await?,
        waits_for: tags.waits_for(),
        stop_reason: tags
            .stop_reason()
            .or_else(|| stopped_over_budget(&conversation, &tags)),
        quiet: time::since(&conversation.updated_at),
    });
    Ok((conversation, outcome))
}

/// The budget for which a task was stopped that is not tagged with it yet.
fn stopped_over_budget(task: &Conversation, tags: &ConversationTags) -> Option<StopReason> {
    if task.execution_status != Execution::Paused || tags.deadline().is_none() {
        return None;
    }
    let cost = task.stats.cost();
    if tags.cost().is_some_and(|max| cost > max) {
        return Some(StopReason::Cost);
    }
    tags.is_overdue().then_some(StopReason::Time)
}

/// The end of the run, where the state alone does not tell it.
async fn run_end(
    server: &AgentServer,
    id: TaskId,
    execution: Execution,
) -> Result<Option<RunEnd>, Failure> {
    match execution {
        Execution::Error => {
            let (error, restart) = tokio::try_join!(
                server.last_time(id, kind::RUN_ERROR),
                server.last_restart(id),
            )?;
            if restart > error {
                return Ok(Some(RunEnd::Restart));
            }
            let error: Option<RunError> = server.last_event(id, kind::RUN_ERROR).await?;
            Ok(error.map(RunEnd::Error))
        }
        Execution::Paused => {
            let (interrupted, paused) = tokio::try_join!(
                server.last_time(id, kind::INTERRUPT),
                server.last_time(id, kind::PAUSE),
            )?;
            Ok((interrupted > paused).then_some(RunEnd::Interrupt))
        }
        _ => Ok(None),
    }
}
