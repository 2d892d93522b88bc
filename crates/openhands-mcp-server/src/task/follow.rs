//! The state of a task at one moment, waiting for its end, and completion of ids.

use std::time::Duration;

use mcp_core::tool::Call;
use tokio::time::{Instant, sleep_until, timeout_at};
use upstream::poll::Backoff;
use upstream::redact::{redacted, redacted_code};
use upstream::text::{page, tail, visible};
use upstream::time::Timestamp;

use super::permission::Confirmation;
use crate::OpenHands;
use crate::api::tags::tag;
use crate::api::{
    AgentServer, ApiFailure, ApiResult, Backend, Conversation, Event, Execution, Servers, TaskId,
    event_kind, summary,
};
use crate::state::{TaskFacts, TaskOutcome, TaskStatus};

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
    pub(crate) pending: Option<Confirmation>,
    /// The time at which it was read, by the clock of the agent server.
    pub(crate) now: Timestamp,
    last_action: Option<Event>,
    /// Summaries of the actions since the last poll.
    pub(crate) new_actions: Vec<String>,
}

/// At most `max` bytes of the last message of an agent, and the offset of the rest.
pub(crate) fn shown_message(message: &str, max: usize) -> (Option<String>, Option<u64>) {
    let (shown, next) = page(message, 0, max);
    let text = match next {
        None => shown.to_owned(),
        Some(next) => format!(
            "{shown}\n[cut: {next} of {} bytes shown; get_task_result with offset {next} has the rest]",
            message.len()
        ),
    };
    (non_blank(text), next.map(|next| next as u64))
}

/// The end of the output of a command.
pub(crate) fn shown_output(output: &str) -> Option<String> {
    let shown = tail(output, MAX_OUTPUT_BYTES);
    let all = "shown; get_task_result with part output has all]";
    non_blank(match shown.len() == output.len() {
        true => shown,
        false => shown.replacen("shown]", all, 1),
    })
}

/// A part of a text from `offset` on, and the offset of the rest.
pub(crate) fn part(text: &str, offset: u64) -> (String, Option<u64>) {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let (shown, next) = page(text, offset, MAX_RESULT_BYTES);
    (shown.to_owned(), next.map(|next| next as u64))
}

fn non_blank(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}

impl TaskSnapshot {
    /// Reads the state of a task, with the actions since `before`, or the last one.
    pub(crate) async fn read(
        server: &AgentServer,
        id: TaskId,
        before: Option<&Self>,
    ) -> ApiResult<Self> {
        let conversation = server.conversation(id).await?;
        let (mut steps, mut actions) = (0, Vec::new());
        if let Some(before) = before {
            loop {
                let last = actions.last().or(before.last_action.as_ref());
                let more = server.actions_after(id, last).await?;
                if more.is_empty() {
                    break;
                }
                actions.extend(more);
            }
            steps = before.steps + actions.len() as u64;
        } else if let Some(last) = server.last_event(id, event_kind::ACTION).await? {
            steps = server.count_before(id, &last).await? + 1;
            actions.push(last);
        }
        let facts = TaskFacts::read(server, conversation, steps).await?;
        let pending = match facts.conversation.execution_status {
            Execution::WaitingForConfirmation => Some(Confirmation::read(server, id).await?),
            _ => None,
        };
        let known = before.and_then(|before| before.last_action.clone());
        Ok(Self {
            id,
            outcome: facts.outcome(),
            needs_run: facts.needs_run(),
            conversation: facts.conversation,
            steps,
            pending,
            now: server.now(),
            new_actions: actions.iter().map(summary).collect(),
            last_action: actions.pop().or(known),
        })
    }

    pub(crate) fn status(&self) -> TaskStatus {
        self.outcome.status
    }

    /// Returns true if the agent waits for permission.
    pub(crate) fn is_asking(&self) -> bool {
        self.outcome.status == TaskStatus::WaitingForConfirmation
    }

    /// A summary of the agent's last action; `None` while actions wait for permission, which are shown whole.
    pub(crate) fn last_action(&self) -> Option<String> {
        let action = self.last_action.as_ref();
        action.filter(|_| !self.is_asking()).map(summary)
    }

    /// Reads the last message of the agent so far, whole.
    pub(crate) async fn read_message(&self, server: &AgentServer) -> ApiResult<String> {
        let mut message = server.final_response(self.id).await?;
        if message.trim().is_empty() {
            let thought = self.last_action.iter().flat_map(|action| &action.thought);
            message = thought.map(|part| part.text.as_str()).collect();
        }
        // Before it is cut: a secret may lie across a border.
        Ok(redacted_code(&visible(&message)).into_owned())
    }

    /// Reads the output of the last command so far, whole, and its exit code.
    pub(crate) async fn read_output(
        &self,
        server: &AgentServer,
    ) -> ApiResult<(String, Option<i64>)> {
        let (printed, exit_code) = server.last_command(self.id).await?;
        Ok((redacted(&printed).into_owned(), exit_code))
    }
}

/// The poll interval. It grows while nothing new is seen.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const POLL_BACKOFF: Backoff = Backoff::new(POLL_INTERVAL, Duration::from_secs(2));

/// The timeout of the first poll, even if the wait is shorter.
const FIRST_POLL_TIMEOUT: Duration = Duration::from_secs(2);

/// The last known state of a task at the end of a wait.
#[derive(Default)]
pub(crate) struct ObservedTask {
    /// The last successful poll.
    pub(crate) task: Option<TaskSnapshot>,
    /// The failure of the last poll.
    pub(crate) failure: Option<ApiFailure>,
}

/// Polls a task until it settles or `until`. Waits for an agent server that does not answer, because
/// tasks survive its restarts.
pub(crate) async fn observe(
    service: &OpenHands,
    id: TaskId,
    until: Instant,
    call: &Call,
) -> ObservedTask {
    let mut seen = ObservedTask::default();
    call.progress(0.0, None, "Waiting for the task.");
    // Even a caller that does not wait learns whether the task runs.
    let first = Instant::now() + FIRST_POLL_TIMEOUT;
    let mut delays = POLL_BACKOFF.delays();
    loop {
        let deadline = match seen.task {
            Some(_) => until,
            None => until.max(first),
        };
        let polled = poll(service, id, &mut seen.task, call);
        match timeout_at(deadline, polled).await {
            Ok(Ok(settled)) => {
                seen.failure = None;
                if settled {
                    return seen;
                }
                let has_news = |task: &TaskSnapshot| !task.new_actions.is_empty();
                if seen.task.as_ref().is_some_and(has_news) {
                    delays.reset();
                }
            }
            Ok(Err(failure)) => {
                tracing::debug!(task = %id, ?failure, "cannot poll the task");
                let transient = failure.is_transient();
                seen.failure = Some(failure);
                if !transient {
                    return seen;
                }
            }
            Err(_) => {
                // Without a response nothing is known, not even whether the task exists.
                if seen.task.is_none() {
                    seen.failure.get_or_insert(ApiFailure::NoAnswer);
                }
                return seen;
            }
        }
        let polled = Instant::now();
        if polled + POLL_INTERVAL >= until {
            return seen;
        }
        // The last poll is just before the end.
        sleep_until((polled + delays.next_delay()).min(until - POLL_INTERVAL)).await;
    }
}

/// Polls once and reports new steps. Returns true once the task has settled.
async fn poll(
    service: &OpenHands,
    id: TaskId,
    task: &mut Option<TaskSnapshot>,
    call: &Call,
) -> ApiResult<bool> {
    let server = service.servers.for_task(id).await?;
    let now = TaskSnapshot::read(&server, id, task.as_ref()).await?;
    let task = task.insert(now);
    if task.needs_run {
        service.runner.begin_later(id);
    }
    let first = task.steps - task.new_actions.len() as u64;
    for (step, action) in (first + 1..).zip(&task.new_actions) {
        let done = f64::from(u32::try_from(step).unwrap_or(u32::MAX));
        call.progress(done, None, &format!("Step {step}: {action}"));
    }
    Ok(task.status().is_settled())
}

/// The newest tasks, whose ids are completed: the agent server takes 10 ms for each.
const MAX_COMPLETED_TASKS: u32 = 30;

/// Returns the ids of the newest tasks that begin with `value`; none if OpenHands does not answer.
pub(crate) async fn task_ids(servers: &Servers, value: &str) -> Vec<String> {
    let newest = async {
        let ids: Vec<TaskId> = match servers.backend().await? {
            Backend::App(app) => {
                let page = app.conversations(MAX_COMPLETED_TASKS, None).await?;
                page.items.into_iter().map(|task| task.id).collect()
            }
            Backend::Agent(server) => {
                let page = server.conversations(None, MAX_COMPLETED_TASKS, None);
                let tasks = page.await?.items.into_iter();
                // It is not known who asks, so the ids of principals' tasks are not shown.
                let tasks = tasks.filter(|task| task.tags.get(tag::OWNER).is_none());
                tasks.map(|task| task.id).collect()
            }
        };
        Ok::<_, ApiFailure>(ids)
    };
    let ids = newest.await.unwrap_or_default().into_iter();
    let ids = ids.map(|id| id.to_string());
    ids.filter(|id| id.starts_with(value)).collect()
}
