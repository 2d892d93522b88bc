//! `run_parallel_tasks`

use futures_util::future::join_all;
use mcp_core::tool::{Bounded, Call, Effect, TaskSupport, Tool, ToolError, ToolErrorKind};
use openhands_api::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use upstream::text::one_line;

use super::arguments::{Limits, TaskArguments};
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::task::{Confirm, Report, TaskSpec, TaskStatus, create};

/// Tasks of one call.
const MAX_TASKS: usize = 20;
/// Tasks that are started at once. Each sets up an agent, which uses a processor for a moment.
const MAX_STARTING: usize = 4;
/// Characters of each task's text in the answer; 20 tasks stay under 2,000 tokens.
const MAX_TEXT_CHARS: usize = 160;

/// Runs several tasks at once, each in its own directory unless workspace is set. Tasks without a
/// slot are queued and start by themselves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunParallelTasks {
    /// 1 to 20.
    tasks: Vec<TaskArguments>,
    /// Seconds to wait for all to end; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// Each, as in run_task.
    max_iterations: Option<Bounded<1, 100_000>>,
    /// Each, as in run_task.
    max_seconds: Option<Bounded<1, 604_800>>,
    /// Each, as in run_task.
    max_cost: Option<f64>,
    /// As in run_task.
    confirm: Option<Confirm>,
    /// As in run_task.
    agent: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ParallelRuns {
    /// In the order of the call.
    tasks: Vec<RunSummary>,
    /// Tasks without a slot.
    queued: usize,
    /// Next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct RunSummary {
    /// Absent if it was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<TaskStatus>,
    /// Agent's last message, truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    /// The verify command succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify_exit_code: Option<i32>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Tool for RunParallelTasks {
    const NAME: &'static str = "run_parallel_tasks";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = OpenHands;
    type Output = ParallelRuns;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ParallelRuns, ToolError> {
        let wait = WaitFor::new(self.wait_seconds);
        let specs = self.specs(wait)?;
        run(service, specs, wait, call).await
    }
}

/// Starts the tasks in their order and waits for all of them.
pub(super) async fn run(
    service: &OpenHands,
    specs: Vec<TaskSpec>,
    wait: WaitFor,
    call: &Call,
) -> Result<ParallelRuns, ToolError> {
    if !(1..=MAX_TASKS).contains(&specs.len()) {
        return Err(ToolError::invalid_argument(format!(
            "tasks must contain 1 to {MAX_TASKS} tasks."
        )));
    }
    let starting = Semaphore::new(MAX_STARTING);
    let tasks = specs.into_iter().map(|spec| async {
        let id = {
            // The semaphore is never closed.
            let _permit = starting.acquire().await.ok();
            create(service, call, spec).await?
        };
        TaskWait::new(service, id, wait, call)
            .follow_quietly()
            .await
    });
    let ended: Vec<Result<Report, ToolError>> = join_all(tasks).await;
    if call.is_cancelled() {
        let message = "The call was cancelled, and so were its tasks.";
        return Err(ToolError::new(ToolErrorKind::Cancelled, message));
    }
    Ok(ParallelRuns::new(ended))
}

impl RunParallelTasks {
    fn specs(self, wait: WaitFor) -> Result<Vec<TaskSpec>, ToolError> {
        let limits = Limits {
            agent: self.agent,
            max_iterations: self.max_iterations,
            max_seconds: self.max_seconds,
            max_cost: self.max_cost,
            confirm: self.confirm,
        };
        let spec = |(at, task): (usize, TaskArguments)| {
            task.spec(&limits, wait).map_err(|error| {
                ToolError::new(error.kind(), format!("tasks[{at}]: {}", error.message()))
            })
        };
        self.tasks.into_iter().enumerate().map(spec).collect()
    }
}

impl ParallelRuns {
    fn new(ended: Vec<Result<Report, ToolError>>) -> Self {
        let tasks: Vec<RunSummary> = ended.into_iter().map(RunSummary::new).collect();
        let count = |status| {
            tasks
                .iter()
                .filter(|run| run.status == Some(status))
                .count()
        };
        let queued = count(TaskStatus::Queued);
        let open = queued + count(TaskStatus::Running) + count(TaskStatus::Unknown);
        Self {
            next: (open > 0)
                .then_some("Call wait_task or get_task_result for each that is not done."),
            tasks,
            queued,
        }
    }
}

impl RunSummary {
    fn new(ended: Result<Report, ToolError>) -> Self {
        let short = |text: String| one_line(&text, MAX_TEXT_CHARS);
        match ended {
            Ok(report) => Self {
                task_id: Some(report.task_id),
                status: Some(report.status),
                result: report.result.map(short),
                verified: report.verified,
                verify_exit_code: report.verify_exit_code,
                error: report.error.map(short),
            },
            Err(error) => Self {
                task_id: None,
                status: None,
                result: None,
                verified: None,
                verify_exit_code: None,
                error: Some(one_line(error.message(), 2 * MAX_TEXT_CHARS)),
            },
        }
    }
}
