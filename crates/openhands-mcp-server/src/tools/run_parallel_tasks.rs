//! `run_parallel_tasks`

use futures_util::future::join_all;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use upstream::text::one_line;

use super::arguments::{Context, Limits, directory};
use super::following::{WaitFor, WaitSeconds, follow_quietly};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Confirm, Report, TaskSpec, TaskStatus, create};

/// Tasks of one call.
const MAX_TASKS: usize = 20;
/// Tasks that are started at once: each sets up an agent, which takes a processor for a moment.
const MAX_STARTING: usize = 4;
/// Characters that the answer tells of each task; of 20 together, less than 2,000 tokens.
const MAX_TEXT: usize = 160;

/// Runs several tasks at once, each in a directory of its own unless workspace says otherwise. Those
/// for which there is no room yet are queued and begin by themselves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunParallelTasks {
    /// 1 to 20.
    tasks: Vec<Item>,
    /// How long to wait for all to end; default 20.
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

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// What to do.
    task: String,
    /// What the agent works on.
    context: Option<Context>,
    /// Directory to work in.
    workspace: Option<String>,
    /// As in run_task.
    idempotency_key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Runs {
    /// In the order of the call.
    tasks: Vec<Run>,
    /// How many wait for a place.
    queued: usize,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Run {
    /// Absent where it was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<TaskStatus>,
    /// What the agent said last, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Tool for RunParallelTasks {
    const NAME: &'static str = "run_parallel_tasks";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Runs;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Runs, ToolError> {
        let wait = WaitFor::new(self.wait_seconds);
        let specs = self.specs(wait)?;
        run(service, specs, wait, call).await
    }
}

/// Starts the tasks, in their order as far as there are slots, and waits for all.
pub(super) async fn run(
    service: &OpenHands,
    specs: Vec<TaskSpec>,
    wait: WaitFor,
    call: &Call,
) -> Result<Runs, ToolError> {
    if !(1..=MAX_TASKS).contains(&specs.len()) {
        return Err(ToolError::invalid_argument(format!(
            "tasks must hold 1 to {MAX_TASKS} tasks."
        )));
    }
    let starting = Semaphore::new(MAX_STARTING);
    let tasks = specs.into_iter().map(|spec| async {
        let id = {
            // Never closed.
            let _turn = starting.acquire().await.ok();
            create(service, spec).await?
        };
        follow_quietly(service, id, wait, call).await
    });
    let ended: Vec<Result<Report, ToolError>> = join_all(tasks).await;
    if call.is_cancelled() {
        let message = "The call was cancelled, and so were its tasks.";
        return Err(ToolError::new(ToolErrorKind::Cancelled, message));
    }
    Ok(Runs::new(ended))
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
        let spec = |(at, item): (usize, Item)| {
            let mut spec = TaskSpec::new(item.task, wait.answer_by);
            spec.workspace.directory = directory(item.workspace.as_deref())?;
            spec.key = item.idempotency_key;
            if let Some(context) = item.context {
                context.apply(&mut spec)?;
            }
            limits.apply(&mut spec)?;
            spec.checked().map_err(|error: ToolError| {
                ToolError::new(error.kind(), format!("tasks[{at}]: {}", error.message()))
            })
        };
        self.tasks.into_iter().enumerate().map(spec).collect()
    }
}

impl Runs {
    fn new(ended: Vec<Result<Report, ToolError>>) -> Self {
        let tasks: Vec<Run> = ended.into_iter().map(Run::new).collect();
        let are = |status| {
            tasks
                .iter()
                .filter(|run| run.status == Some(status))
                .count()
        };
        let queued = are(TaskStatus::Queued);
        let open = queued + are(TaskStatus::Running) + are(TaskStatus::Unknown);
        Self {
            next: (open > 0)
                .then_some("Ask wait_task or get_task_result for each that is not done."),
            tasks,
            queued,
        }
    }
}

impl Run {
    fn new(ended: Result<Report, ToolError>) -> Self {
        let short = |text: String| one_line(&text, MAX_TEXT);
        match ended {
            Ok(report) => Self {
                task_id: Some(report.task_id),
                status: Some(report.status),
                result: report.result.map(short),
                error: report.error.map(short),
            },
            Err(error) => Self {
                task_id: None,
                status: None,
                result: None,
                error: Some(one_line(error.message(), 2 * MAX_TEXT)),
            },
        }
    }
}
