//! `run_task`

use mcp_core::tool::{Bounded, Call, EarlierTask, Effect, TaskSupport, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Context, Limits, TaskArguments};
use super::earlier;
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Confirm, ShortReport, TaskSpec, create, task_of_question};

/// Gives a coding task to an OpenHands agent, which works on it with a shell and an editor. Returns
/// the result if it is done in time, otherwise status running or queued and the task_id for wait_task.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTask {
    /// The task in words; the agent sees nothing else of this conversation.
    task: String,
    /// Files or repository.
    context: Option<Context>,
    /// Directory to work in, such as my-project; default a new one.
    workspace: Option<String>,
    /// Work in a git worktree of workspace, on a branch of its own.
    worktree: Option<bool>,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// Any text: the same key never starts the task twice, so a lost call can be repeated.
    idempotency_key: Option<String>,
    /// Steps after which it is stopped.
    max_iterations: Option<Bounded<1, 100_000>>,
    /// Seconds after which it is stopped.
    max_seconds: Option<Bounded<1, 604_800>>,
    /// US dollars after which it is stopped.
    max_cost: Option<f64>,
    /// Actions that need respond_confirmation; default none.
    confirm: Option<Confirm>,
    /// Command that checks the finished work in its directory, such as `cargo test`.
    verify: Option<String>,
    /// Agent profile; default the active one.
    agent: Option<String>,
    /// Model profile; default the agent's.
    model: Option<String>,
    /// URL that gets the result at the end.
    callback_url: Option<String>,
    /// A task that was begun before a restart of this server.
    #[serde(skip)]
    existing: Option<TaskId>,
}

impl Tool for RunTask {
    const NAME: &'static str = "run_task";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let wait = WaitFor::new(self.wait_seconds, service);
        let id = if let Some(id) = self.existing.or_else(|| task_of_question(call)) {
            id
        } else {
            let mut spec = self.spec(service, wait)?;
            // After a restart the task of the protocol finds its OpenHands task by this id.
            spec.id = earlier::new_id(call, 0);
            create(service, call, spec).await?
        };
        let wait = TaskWait::new(service, id, wait, call);
        wait.follow_and_ask().await.map(ShortReport)
    }

    fn task_reference(&self, service: &OpenHands, call: &Call) -> Option<String> {
        let key = self.idempotency_key.as_deref();
        Some(earlier::reference([
            key.map(|key| service.key_id(key, call))
        ]))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        let existing = earlier::one(service, task, call).await?;
        Ok(Self {
            existing: Some(existing),
            ..Self::default()
        })
    }
}

impl RunTask {
    fn spec(self, service: &OpenHands, wait: WaitFor) -> Result<TaskSpec, ToolError> {
        let limits = Limits {
            agent: self.agent,
            model: self.model,
            max_iterations: self.max_iterations,
            max_seconds: self.max_seconds,
            max_cost: self.max_cost,
            confirm: self.confirm,
            callback: service
                .callbacks
                .check_given(self.callback_url.as_deref())?,
        };
        let arguments = TaskArguments {
            task: self.task,
            context: self.context,
            workspace: self.workspace,
            worktree: self.worktree,
            idempotency_key: self.idempotency_key,
            verify: self.verify,
        };
        arguments.spec(&limits, wait)
    }
}
