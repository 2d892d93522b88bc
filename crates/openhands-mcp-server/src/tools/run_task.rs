//! `run_task`

use std::time::Duration;

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use crate::OpenHands;
use crate::follow::Seen;
use crate::start::Order;
use crate::status::{TaskStatus, Verdict};
use crate::task_id::TaskId;
use crate::workspace::FileName;

/// Hosts and our own transports give up on a call after 30 s; by then it must have been answered,
/// or the task's id is lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(28);
/// Leaves the largest part of that to the task.
const DEFAULT_WAIT: u32 = 20;
const MAX_TASK: usize = 200_000;
const MAX_KEY: usize = 256;

/// Hands a coding task to an OpenHands agent, which works on it with a shell and an editor in a
/// directory of its own. Returns the result if it is done in time, otherwise status running and the
/// task_id for get_task_status and get_task_result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTask {
    /// What to do, in words; the agent sees nothing else of this conversation.
    task: String,
    /// A file for the agent to work on.
    context: Option<Context>,
    /// How long to wait for the end; default 20.
    wait_seconds: Option<Bounded<0, 25>>,
    /// Any text: the same key never starts the task twice, so a lost call can be repeated.
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Context {
    /// Relative path, such as src/app.py.
    file: FileName,
    /// Its content.
    content: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskRun {
    /// For the other tools.
    task_id: TaskId,
    status: TaskStatus,
    /// What the agent said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// What its last command printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Actions taken so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Tool for RunTask {
    const NAME: &'static str = "run_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = TaskRun;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<TaskRun, ToolError> {
        let answer_by = Instant::now() + ANSWER_WITHIN;
        let wait = self.wait_seconds.map_or(DEFAULT_WAIT, Bounded::get);
        let until = Instant::now() + Duration::from_secs(wait.into());
        let id = service.start(self.order(answer_by)?).await?;
        if wait == 0 {
            return Ok(TaskRun::started(id));
        }
        let seen = service.follow(id, until, call).await?;
        Ok(TaskRun::of(id, seen, service, answer_by).await)
    }
}

impl RunTask {
    fn order(self, answer_by: Instant) -> Result<Order, ToolError> {
        if self.task.trim().is_empty() {
            return Err(ToolError::invalid_argument("task must say what to do."));
        }
        if self.task.len() > MAX_TASK {
            return Err(ToolError::invalid_argument(format!(
                "task is longer than {MAX_TASK} bytes: put the material into context.content."
            )));
        }
        let usable = |key: &String| !key.trim().is_empty() && key.len() <= MAX_KEY;
        if !self.idempotency_key.as_ref().is_none_or(usable) {
            return Err(ToolError::invalid_argument(format!(
                "idempotency_key must have 1 to {MAX_KEY} bytes."
            )));
        }
        Ok(Order {
            task: self.task,
            file: self.context.map(|context| (context.file, context.content)),
            key: self.idempotency_key,
            answer_by,
        })
    }
}

impl TaskRun {
    /// Nobody has looked yet.
    fn started(id: TaskId) -> Self {
        Self {
            task_id: id,
            status: TaskStatus::Running,
            result: None,
            last_output: None,
            steps: None,
            error: None,
            next: Some("Ask get_task_status for its state, get_task_result for its result.".into()),
        }
    }

    /// Never an error: the task runs, and without its id it would be lost.
    async fn of(id: TaskId, seen: Seen, service: &OpenHands, answer_by: Instant) -> Self {
        let mut run = Self::started(id);
        if let Some(task) = &seen.task {
            run.steps = Some(task.steps);
            run.judge(task.verdict.clone());
            if task.status().is_settled() {
                match timeout_at(answer_by, task.outcome(&service.server)).await {
                    Ok(Ok(outcome)) => {
                        run.result = outcome.result;
                        run.last_output = outcome.last_output;
                    }
                    answer => {
                        let failure = answer.map(Result::err);
                        tracing::warn!(task = %id, ?failure, "cannot read the result");
                        run.next = Some("Ask get_task_result for the result.".into());
                    }
                }
            }
        }
        if let Some(failure) = seen.failure {
            run.judge(Verdict::unseen(ToolError::from(failure).message()));
        }
        run
    }

    fn judge(&mut self, verdict: Verdict) {
        self.status = verdict.status;
        self.error = verdict.error;
        self.next = verdict.next.map(str::to_owned);
    }
}
