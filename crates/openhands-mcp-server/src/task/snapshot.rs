//! A snapshot of a task.

use upstream::redact::{redacted, redacted_code};
use upstream::text::{page, tail, visible};
use upstream::time;

use super::outcome::{TaskFacts, TaskOutcome, TaskStatus};
use super::pending::PendingActions;
use crate::api::{
    AgentServer, ApiResult, Conversation, Event, Execution, RunEnd, RunError, TaskId, event_kind,
    summary,
};
use crate::ended::LastState;
use crate::runner::has_steps_left;
use crate::tags::{ConversationTags, StopReason};

/// Bytes of the agent's last message. With the output below and the changed files, a report stays
/// under 2,000 tokens.
pub(crate) const MAX_RESULT_BYTES: usize = 4_000;
/// The same where it costs no tokens: in a resource and a callback.
pub(crate) const MAX_WHOLE_RESULT_BYTES: usize = 100_000;
/// Bytes of the last command's output. The end is kept, because it shows the outcome.
const MAX_OUTPUT_BYTES: usize = 1_500;

/// The state of a task at one moment.
pub(crate) struct TaskSnapshot {
    pub(crate) id: TaskId,
    pub(crate) outcome: TaskOutcome,
    pub(crate) conversation: Conversation,
    /// Actions of the agent so far.
    pub(crate) steps: u64,
    /// It begins or goes on by itself, once its repository or a slot is there.
    pub(crate) needs_run: bool,
    /// The actions for which it waits for permission.
    pub(crate) pending: Option<PendingActions>,
    last_action: Option<Event>,
    /// Summaries of the actions since the last poll.
    pub(crate) new_actions: Vec<String>,
}

/// The last message of a task's agent and the output of its last command, whole.
pub(crate) struct AgentOutput {
    result: String,
    output: String,
    pub(crate) exit_code: Option<i64>,
}

impl AgentOutput {
    /// The last message, at most `max` bytes, and the offset of the rest.
    pub(crate) fn result(&self, max: usize) -> (Option<String>, Option<u64>) {
        let (shown, next) = page(&self.result, 0, max);
        let text = match next {
            None => shown.to_owned(),
            Some(next) => format!(
                "{shown}\n[cut: {next} of {} bytes shown; get_task_result with offset {next} has the rest]",
                self.result.len()
            ),
        };
        (non_blank(text), next.map(|next| next as u64))
    }

    /// The end of the output.
    pub(crate) fn last_output(&self) -> Option<String> {
        let shown = tail(&self.output, MAX_OUTPUT_BYTES);
        non_blank(match shown.len() == self.output.len() {
            true => shown,
            false => shown.replacen(
                "shown]",
                "shown; get_task_result with part output has all]",
                1,
            ),
        })
    }

    /// A part of the last message from `offset` on, and the offset of the rest.
    pub(crate) fn result_from(&self, offset: u64) -> (String, Option<u64>) {
        part(&self.result, offset)
    }

    /// The same of the output.
    pub(crate) fn output_from(&self, offset: u64) -> (String, Option<u64>) {
        part(&self.output, offset)
    }
}

fn part(text: &str, offset: u64) -> (String, Option<u64>) {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let (shown, next) = page(text, offset, MAX_RESULT_BYTES);
    (shown.to_owned(), next.map(|next| next as u64))
}

fn non_blank(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}

impl TaskSnapshot {
    /// Polls the task for the first time.
    pub(crate) async fn read(server: &AgentServer, id: TaskId) -> ApiResult<Self> {
        let conversation = server.conversation(id).await?;
        let last_action: Option<Event> = server.last_event(id, event_kind::ACTION).await?;
        let steps = match &last_action {
            Some(action) => server.count_before(id, action).await? + 1,
            None => 0,
        };
        let (conversation, outcome, needs_run) = evaluate(server, id, conversation, steps).await?;
        let pending = pending(server, &conversation).await?;
        Ok(Self {
            id,
            outcome,
            conversation,
            steps,
            needs_run,
            pending,
            new_actions: last_action.iter().map(summary::event).collect(),
            last_action,
        })
    }

    /// Polls the task again.
    pub(crate) async fn refresh(&mut self, server: &AgentServer) -> ApiResult<()> {
        let conversation = server.conversation(self.id).await?;
        self.new_actions.clear();
        loop {
            let actions = server
                .actions_after(self.id, self.last_action.as_ref())
                .await?;
            self.new_actions.extend(actions.iter().map(summary::event));
            self.steps += actions.len() as u64;
            match actions.into_iter().next_back() {
                Some(last) => self.last_action = Some(last),
                None => break,
            }
        }
        (self.conversation, self.outcome, self.needs_run) =
            evaluate(server, self.id, conversation, self.steps).await?;
        self.pending = pending(server, &self.conversation).await?;
        Ok(())
    }

    pub(crate) fn status(&self) -> TaskStatus {
        self.outcome.status
    }

    /// The state of the conversation, if the task has ended.
    pub(crate) fn last_state(&self) -> Option<LastState> {
        let reason = ConversationTags::new(self.conversation.tags.clone()).stop_reason();
        let state = (self.conversation.execution_status, reason);
        self.status().is_settled().then_some(state)
    }

    /// Returns true if the agent waits for permission.
    pub(crate) fn is_asking(&self) -> bool {
        self.outcome.status == TaskStatus::WaitingForConfirmation
    }

    /// A summary of the agent's last action; `None` while actions wait for permission, which are shown whole.
    pub(crate) fn last_action(&self) -> Option<String> {
        let action = self.last_action.as_ref();
        action.filter(|_| !self.is_asking()).map(summary::event)
    }

    /// Reads the output so far, even if the task has not ended.
    pub(crate) async fn read_output(&self, server: &AgentServer) -> ApiResult<AgentOutput> {
        let mut message = server.final_response(self.id).await?;
        if message.trim().is_empty() {
            let thought = self.last_action.iter().flat_map(|action| &action.thought);
            message = thought.map(|part| part.text.as_str()).collect();
        }
        let command = server.last_command(self.id).await?;
        let printed = command.as_ref().map_or("", |command| &*command.printed);
        Ok(AgentOutput {
            // Before they are cut: a secret may lie across a border.
            result: redacted_code(&visible(&message)).into_owned(),
            output: redacted(printed).into_owned(),
            exit_code: command.and_then(|command| command.exit_code),
        })
    }
}

/// The actions for which the task waits for permission.
async fn pending(server: &AgentServer, task: &Conversation) -> ApiResult<Option<PendingActions>> {
    Ok(match task.execution_status {
        Execution::WaitingForConfirmation => Some(PendingActions::read(server, task.id).await?),
        _ => None,
    })
}

async fn evaluate(
    server: &AgentServer,
    id: TaskId,
    mut conversation: Conversation,
    steps: u64,
) -> ApiResult<(Conversation, TaskOutcome, bool)> {
    let mut has_acted = steps > 0;
    if conversation.execution_status == Execution::Idle {
        // An agent that only sends a message takes no steps.
        has_acted = has_acted || server.count_messages(id, "agent").await? > 0;
        // The actions may be newer than the state that was read, so it is read again.
        if has_acted {
            conversation = server.conversation(id).await?;
        }
    }
    let tags = ConversationTags::new(conversation.tags.clone());
    let is_fetching = conversation.execution_status == Execution::Idle && tags.fetch().is_some();
    let goes_on = has_steps_left(server, &conversation, &tags).await?;
    if goes_on {
        conversation.execution_status = Execution::Running;
    }
    let outcome = TaskOutcome::from_facts(&TaskFacts {
        execution: conversation.execution_status,
        has_acted,
        max_iterations: tags.steps().or(conversation.max_iterations.map(u64::from)),
        run_end: run_end(server, id, conversation.execution_status).await?,
        is_fetching,
        stop_reason: tags
            .stop_reason()
            .or_else(|| stopped_over_budget(&conversation, &tags)),
        stop_text: tags.stop_text().map(str::to_owned),
        quiet: time::since(&conversation.updated_at),
    });
    Ok((conversation, outcome, is_fetching || goes_on))
}

/// The exceeded budget of a task that was stopped but is not tagged with the reason yet.
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

/// The end of the run, if the state alone does not tell it.
async fn run_end(
    server: &AgentServer,
    id: TaskId,
    execution: Execution,
) -> ApiResult<Option<RunEnd>> {
    match execution {
        Execution::Error => {
            let (error, restart) = tokio::try_join!(
                server.last_time(id, event_kind::RUN_ERROR),
                server.last_restart(id),
            )?;
            if restart > error {
                return Ok(Some(RunEnd::Restart));
            }
            let error: Option<RunError> = server.last_event(id, event_kind::RUN_ERROR).await?;
            Ok(error.map(RunEnd::Error))
        }
        Execution::Paused => {
            let (interrupted, paused) = tokio::try_join!(
                server.last_time(id, event_kind::INTERRUPT),
                server.last_time(id, event_kind::PAUSED),
            )?;
            Ok((interrupted > paused).then_some(RunEnd::Interrupt))
        }
        _ => Ok(None),
    }
}
