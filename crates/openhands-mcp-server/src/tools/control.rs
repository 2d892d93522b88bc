//! Tools that control a task: messages, answers, its stop, its next run and its deletion.

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::task_words;
use super::run::limits;
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::tags::{StopReason, tag};
use crate::api::{
    AgentServer, ApiFailure, AppServer, Backend, Conversation, Execution, SandboxProblem, StartEnd,
    TaskId,
};
use crate::budget::Limits;
use crate::git::{Repository, fetch_new};
use crate::state::TaskStatus;
use crate::task::{
    Continuation, PermissionAnswer, ShortReport, TaskSnapshot, ask_user, resume, send_answer,
};
use crate::workspace::{
    LeftOver, UnsavedWork, has_own_directory, has_worktree, left_over, remove_worktree, task_within,
};

/// Bytes of a message.
const MAX_MESSAGE_BYTES: usize = 200_000;

/// Sends the agent of a task a correction or a next step, also after its end. The agent keeps its
/// history. Returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// From run_task.
    task_id: TaskId,
    /// Text for the agent.
    message: String,
    /// Fetch new commits first.
    fetch: Option<bool>,
    /// As in run_task.
    wait_seconds: Option<WaitSeconds>,
    /// As in run_task.
    callback_url: Option<String>,
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        if self.message.trim().is_empty() || self.message.len() > MAX_MESSAGE_BYTES {
            return Err(ToolError::invalid_argument(format!(
                "message must have 1 to {MAX_MESSAGE_BYTES} bytes."
            )));
        }
        let with = Continuation {
            message: Some(&self.message),
            raised: Limits::default(),
            callback: service.callbacks.check_given(self.callback_url)?,
        };
        if self.fetch == Some(true) {
            fetch(service, self.task_id, call).await?;
        }
        let wait = WaitFor::new(self.wait_seconds, service);
        go_on(service, self.task_id, &with, wait, call).await
    }
}

/// Fetches the new commits of the repository of a task.
async fn fetch(service: &OpenHands, id: TaskId, call: &Call) -> Result<(), ToolError> {
    let server = service.task_server(id, call).await?;
    let task = server.conversation(id).await?;
    let (url, _) = task.tags.repository().ok_or_else(|| {
        ToolError::invalid_argument("fetch needs a task with context.repository: leave it out.")
    })?;
    let from = Repository::new(url, None).map_err(ToolError::invalid_argument)?;
    let directory = &task.workspace.working_dir;
    fetch_new(&server, directory, &from, &service.git_hosts).await
}

/// Continues a task and waits for its end.
async fn go_on(
    service: &OpenHands,
    id: TaskId,
    with: &Continuation<'_>,
    wait: WaitFor,
    call: &Call,
) -> Result<ShortReport, ToolError> {
    service.check_owner(id, call).await?;
    resume(service, id, with, wait.slot_by()).await?;
    let wait = TaskWait::new(service, id, wait, call);
    wait.follow(false).await.map(ShortReport)
}

/// Resumes a paused, cancelled or failed task; returns as run_task. A limit counts the whole task:
/// raise the limit that it has reached.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeTask {
    /// From run_task.
    task_id: TaskId,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// New total, if higher.
    max_iterations: Option<Bounded<1, 100_000>>,
    /// New total, if higher.
    max_seconds: Option<Bounded<1, 604_800>>,
    /// New total in US dollars, if higher.
    max_cost: Option<f64>,
    /// As in run_task.
    callback_url: Option<String>,
}

impl Tool for ResumeTask {
    const NAME: &'static str = "resume_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let with = Continuation {
            message: None,
            raised: limits(self.max_iterations, self.max_seconds, self.max_cost),
            callback: service.callbacks.check_given(self.callback_url)?,
        };
        let wait = WaitFor::new(self.wait_seconds, service);
        go_on(service, self.task_id, &with, wait, call).await
    }
}

/// Allows or refuses all actions that get_task_result shows in `confirmation`. A refused agent stops:
/// tell it what to do instead with send_message. Returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RespondConfirmation {
    /// From run_task.
    task_id: TaskId,
    /// The id in `confirmation`.
    confirmation_id: String,
    /// True allows them.
    accept: bool,
    /// Reason of a refusal.
    reason: Option<String>,
    /// As in run_task.
    wait_seconds: Option<WaitSeconds>,
}

impl Tool for RespondConfirmation {
    const NAME: &'static str = "respond_confirmation";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let id = self.task_id;
        let wait = WaitFor::new(self.wait_seconds, service);
        let mut answer =
            PermissionAnswer::new(&self.confirmation_id, self.accept, self.reason.as_deref());
        let server = service.task_server(id, call).await?;
        // The model may have accepted without asking its user.
        if answer.accept && call.capabilities().elicitation {
            let asked = ask_user(&server, id, Some(&answer.confirmation_id), call).await?;
            answer = asked.ok_or_else(|| {
                ToolError::forbidden(
                    "The user was asked and did not answer, so the agent still waits. Ask the user \
                     what to do.",
                )
            })?;
        }
        send_answer(service, &server, id, &answer).await?;
        let wait = TaskWait::new(service, id, wait, call);
        wait.follow(false).await.map(ShortReport)
    }
}

/// Stops a task and its command at once. Its work stays; send_message continues it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelTask {
    /// From run_task.
    task_id: TaskId,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct StopResult {
    task_id: TaskId,
    status: TaskStatus,
    /// Whether this call stopped it, and whether its commands have ended.
    message: String,
}

impl Tool for CancelTask {
    const NAME: &'static str = "cancel_task";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = OpenHands;
    type Output = StopResult;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<StopResult, ToolError> {
        let task_id = self.task_id;
        let result = |status, message: &str| StopResult {
            task_id,
            status,
            message: message.to_owned(),
        };
        let server = &match service.task_server(task_id, call).await {
            Err(failure) if failure.sandbox_problem() == Some(&SandboxProblem::Starting) => {
                let Backend::App(app) = service.servers.backend().await? else {
                    return Err(failure.into());
                };
                let end = StartEnd::Cancelled;
                if service.servers.end_start(&app, task_id, end).await? {
                    return Ok(result(
                        TaskStatus::Cancelled,
                        "It was stopped before it had started; its sandbox is deleted.",
                    ));
                }
                service.task_server(task_id, call).await?
            }
            found => found?,
        };
        let task = server.conversation(task_id).await?;
        let runner = &service.runner;
        let stop = || runner.stop(server, task_id, StopReason::Cancelled, None);
        let stopped = match task.execution_status {
            Execution::Running
            | Execution::Idle
            | Execution::WaitingForConfirmation
            | Execution::Unknown => stop().await.map_err(unconfirmed)?,
            _ => {
                let status = TaskSnapshot::read(server, task_id, None).await?.status();
                // It may be about to go on.
                if status.is_settled() {
                    let left = runner.end_left_over(server, task_id).await?;
                    return Ok(result(status, &was_not_running(left)));
                }
                stop().await.map_err(unconfirmed)?
            }
        };
        let status = match TaskSnapshot::read(server, task_id, None).await {
            Ok(after) => after.status(),
            // The stop was confirmed. An agent server that has just killed a command may be slow.
            Err(failure) if failure.is_transient() => TaskStatus::Cancelled,
            Err(failure) => return Err(failure.into()),
        };
        let mut message = match status {
            TaskStatus::Running => "It was told to stop and is still stopping.".to_owned(),
            TaskStatus::Finished => "It ended before it could be stopped.".to_owned(),
            _ => match stopped.left_over {
                LeftOver::Nothing | LeftOver::Ended(_) => {
                    "It was stopped, and none of its commands runs in its directory.".to_owned()
                }
                LeftOver::Processes(names) => format!(
                    "It was stopped, but commands still run in its directory, where others may work: {names}."
                ),
                LeftOver::Unknown => {
                    "It was stopped. It is not known whether its last command has ended.".to_owned()
                }
            },
        };
        if stopped.rest_may_have_run {
            message += REST_MAY_HAVE_RUN;
        }
        Ok(result(status, &message))
    }
}

/// The result of a stop of a task that did not run. `None` if nothing was looked for.
fn was_not_running(left_over: Option<LeftOver>) -> String {
    let more = match left_over {
        Some(LeftOver::Ended(names)) => {
            format!(", but had left commands in its directory, which were ended: {names}.")
        }
        Some(LeftOver::Processes(names)) => {
            format!(", but commands run in its directory, where others may work: {names}.")
        }
        None | Some(LeftOver::Nothing | LeftOver::Unknown) => "; nothing was changed.".to_owned(),
    };
    format!("It was not running any more{more}")
}

/// A part of the result of a stop whose last command line may have gone on.
const REST_MAY_HAVE_RUN: &str = " Of its last command line the rest may have run, because the running command can end \
     before its shell: get_task_events shows the line; check what it would have done.";

/// Explains a stop without a response. If the interrupt comes at the start of a command, the agent
/// server does not respond for up to half a minute.
pub(super) fn unconfirmed(failure: ApiFailure) -> ToolError {
    let more = "The agent server has not confirmed the stop, so the task may go on, or have stopped. Call \
        get_task_status in half a minute, and cancel_task again: it also ends what a stopped task has left running.";
    failure.about_change(more)
}

/// Deletes a task with its events and result, stopping it first. Its files stay, but not its worktree with its branch, nor
/// its sandbox.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteTask {
    /// From run_task.
    task_id: TaskId,
    /// The value from the refusal, if the user agrees.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DeleteResult {
    task_id: TaskId,
    /// Always true.
    deleted: bool,
}

impl Tool for DeleteTask {
    const NAME: &'static str = "delete_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = DeleteResult;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<DeleteResult, ToolError> {
        match service.servers.backend().await? {
            Backend::App(app) => self.delete_with_sandbox(service, &app, call).await?,
            Backend::Agent(_) => self.delete(service, call).await?,
        }
        Ok(DeleteResult {
            task_id: self.task_id,
            deleted: true,
        })
    }
}

/// Errors if another task has worked in the worktree of this one.
async fn refuse_others(
    server: &AgentServer,
    task: &Conversation,
    all: bool,
) -> Result<(), ToolError> {
    match task_within(server, task, all).await? {
        Some(other) => Err(ToolError::conflict(format!(
            "Task {other} has worked in its worktree, too, and that would be removed: delete that task first."
        ))),
        None => Ok(()),
    }
}

impl DeleteTask {
    async fn delete(&self, service: &OpenHands, call: &Call) -> Result<(), ToolError> {
        let server = &service.task_server(self.task_id, call).await?;
        let task = server.conversation(self.task_id).await?;
        let tags = &task.tags;
        let has_worktree = has_worktree(self.task_id, tags.get(tag::BRANCH));
        let loss = match has_worktree {
            true => "all its events, its result, and its worktree with its branch",
            false => "all its events and its result",
        };
        let repository = tags.get(tag::WORKTREE_OF);
        let worktree = (&*task.workspace.working_dir, repository);
        let mut unsaved = None;
        if has_worktree {
            refuse_others(server, &task, true).await?;
            unsaved = Some(UnsavedWork::read(server, self.task_id, worktree).await?);
        }
        let is_at_work = !task.execution_status.is_stopped();
        self.confirm(
            call,
            tags.get(tag::TITLE),
            loss,
            unsaved.as_ref(),
            is_at_work,
        )
        .await?;
        // The user may have taken long to answer.
        let now = server.conversation(self.task_id).await?;
        if has_worktree {
            refuse_others(server, &now, false).await?;
        }
        // A running command would delay the deletion by half a minute.
        if matches!(
            now.execution_status,
            Execution::Running | Execution::Idle | Execution::Unknown
        ) {
            self.stop(service, server).await?;
        } else if has_own_directory(&now) {
            left_over(server, &now).await;
        }
        if let Some(unsaved) = unsaved {
            // The user has agreed to what was there.
            if UnsavedWork::read(server, self.task_id, worktree).await? != unsaved {
                return Err(ToolError::conflict(
                    "The work in the worktree has changed since the question, so the task was not deleted. It does \
                     not run any more: call delete_task again.",
                ));
            }
            remove_worktree(server, self.task_id, worktree).await?;
        }
        let deleted = server.delete(self.task_id).await;
        deleted.map_err(|failure| self.unconfirmed(failure))
    }

    /// Also deletes its sandbox with all files, unless another task uses the sandbox. The task may be starting still, or
    /// could not be started.
    async fn delete_with_sandbox(
        &self,
        service: &OpenHands,
        app: &AppServer,
        call: &Call,
    ) -> Result<(), ToolError> {
        let (id, servers) = (self.task_id, &service.servers);
        let task = app.conversation(id).await?;
        let title = match &task {
            Some(task) => task.title.clone(),
            None => {
                let start = app.recent_start(id).await?;
                let start = start.filter(|start| servers.start_problem(id, start).is_some());
                let start = start.ok_or_else(|| ToolError::from(ApiFailure::Absent(id)))?;
                start.prompt().map(task_words)
            }
        };
        let loss = "its sandbox, files and result";
        self.confirm(call, title.as_deref(), loss, None, false)
            .await?;
        let is_ended = match task {
            Some(task) => {
                if task.execution_status == Some(Execution::Running) {
                    self.stop(service, &servers.for_task(id).await?).await?;
                }
                false
            }
            None => servers.end_start(app, id, StartEnd::Deleted).await?,
        };
        if !is_ended {
            let deleted = app.delete(id).await;
            deleted.map_err(|failure| self.unconfirmed(failure))?;
        }
        servers.evict(id);
        Ok(())
    }

    /// Explains a deletion whose answer was lost, or is none of OpenHands.
    fn unconfirmed(&self, failure: ApiFailure) -> ToolError {
        let id = self.task_id;
        let more = format!(
            "Task {id} may be deleted all the same: call get_task_status with task_id {id}; only if it finds the \
             task, call delete_task again."
        );
        failure.about_change(&more)
    }

    /// Asks the user. The answer about a worktree with `unsaved` work counts for that work only.
    async fn confirm(
        &self,
        call: &Call,
        title: Option<&str>,
        loss: &str,
        unsaved: Option<&UnsavedWork>,
        is_at_work: bool,
    ) -> Result<(), ToolError> {
        let title = title.unwrap_or("no title");
        let mut loss = format!("Deletes the task {title:?} with {loss}.");
        let target = self.task_id.to_string();
        let given = self.confirm.as_deref();
        loss += &unsaved.map(UnsavedWork::question).unwrap_or_default();
        let Some(unsaved) = unsaved.filter(|unsaved| !unsaved.is_empty()) else {
            return call.confirm(&loss, &target, given).await;
        };
        if is_at_work {
            loss += " The task is at work, which changes this: call cancel_task first.";
        }
        call.confirm_facts(&loss, &target, unsaved, given).await
    }

    async fn stop(&self, service: &OpenHands, server: &AgentServer) -> Result<(), ToolError> {
        let reason = StopReason::Cancelled;
        let runner = &service.runner;
        let stopped = runner.stop(server, self.task_id, reason, None).await;
        stopped.map(drop).map_err(unconfirmed)
    }
}
