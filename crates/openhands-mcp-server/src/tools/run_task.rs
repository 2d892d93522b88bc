//! `run_task`

use mcp_core::tool::{Bounded, Call, Effect, TaskSupport, Tool, ToolError};
use openhands_api::TaskId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Context, Limits, TaskArguments};
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::task::{Confirm, Report, TaskSpec, create};

/// Gives a coding task to an OpenHands agent, which works on it with a shell and an editor. Returns
/// the result if it is done in time, otherwise status running or queued and the task_id for wait_task.
#[derive(Debug, Deserialize, JsonSchema)]
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
}

impl Tool for RunTask {
    const NAME: &'static str = "run_task";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let wait = WaitFor::new(self.wait_seconds);
        let mut spec = self.spec(wait)?;
        // One id for the task of the protocol and that of OpenHands, which outlives this server.
        let id = call.client().task_id.as_deref().map(str::to_owned);
        spec.id = id.and_then(|id| TaskId::try_from(id).ok());
        // If a call ends to ask the user and is repeated with the answer, only a key finds its task.
        let may_ask = call.waits_for_answers() || spec.key.is_some();
        let id = create(service, call, spec).await?;
        let wait = TaskWait::new(service, id, wait, call);
        wait.follow_and_ask(may_ask).await
    }
}

impl RunTask {
    fn spec(self, wait: WaitFor) -> Result<TaskSpec, ToolError> {
        let limits = Limits {
            agent: self.agent,
            max_iterations: self.max_iterations,
            max_seconds: self.max_seconds,
            max_cost: self.max_cost,
            confirm: self.confirm,
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
