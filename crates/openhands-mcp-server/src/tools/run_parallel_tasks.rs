//! `run_parallel_tasks`

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use mcp_core::tool::{
    Bounded, Call, EarlierTask, Effect, TaskSupport, Tool, ToolError, ToolErrorKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use upstream::text::one_line;

use super::arguments::{Limits, TaskArguments};
use super::earlier::{self, MAX_TASKS};
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Confirm, Report, TaskSpec, TaskStatus, create};

/// Tasks that are started at once. Each sets up an agent, which uses a processor for a moment.
const MAX_STARTING: usize = 4;
/// The time for the reports after the starts: without it, starts that take all the time lose the ids of their tasks.
const REPORT_TIME: Duration = Duration::from_secs(4);
/// Characters of each task's text in the answer; 20 tasks stay under 2,000 tokens.
const MAX_TEXT_CHARS: usize = 160;

/// Runs several tasks at once, each in its own directory unless workspace is set. A task without a
/// slot has an error.
#[derive(Debug, Default, Deserialize, JsonSchema)]
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
    /// As in run_task.
    model: Option<String>,
    /// Gets each result.
    callback_url: Option<String>,
    /// Tasks that were begun before a restart of this server.
    #[serde(skip)]
    existing: Vec<Option<TaskId>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ParallelRuns {
    /// In the order of the call.
    tasks: Vec<RunSummary>,
    /// Tasks that start by themselves later.
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
        let wait = WaitFor::new(self.wait_seconds, service);
        if !self.existing.is_empty() {
            return follow(service, self.existing, wait, call).await;
        }
        let mut specs = self.specs(service, wait)?;
        for (at, spec) in specs.iter_mut().enumerate() {
            spec.id = earlier::new_id(call, at);
        }
        run(service, specs, wait, call).await
    }

    fn task_reference(&self, service: &OpenHands, call: &Call) -> Option<String> {
        let keys = self
            .tasks
            .iter()
            .map(|task| task.idempotency_key.as_deref());
        let ids = keys.map(|key| key.map(|key| service.key_id(key, call)));
        (self.tasks.len() <= MAX_TASKS).then(|| earlier::reference(ids))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        Ok(Self {
            existing: earlier::all(service, task, call).await?,
            ..Self::default()
        })
    }
}

/// Waits for tasks that were begun before a restart of this server; `None` for those that are missing.
async fn follow(
    service: &OpenHands,
    tasks: Vec<Option<TaskId>>,
    wait: WaitFor,
    call: &Call,
) -> Result<ParallelRuns, ToolError> {
    let tasks = tasks.into_iter().map(async |id| match id {
        Some(id) => {
            TaskWait::new(service, id, wait, call)
                .follow_quietly()
                .await
        }
        None => Err(ToolError::not_found(
            "It had not been started when the server was restarted, or was deleted.",
        )),
    });
    ended(join_all(tasks).await, call)
}

/// Starts the tasks and waits for all of them.
pub(super) async fn run(
    service: &OpenHands,
    mut specs: Vec<TaskSpec>,
    wait: WaitFor,
    call: &Call,
) -> Result<ParallelRuns, ToolError> {
    if !(1..=MAX_TASKS).contains(&specs.len()) {
        return Err(ToolError::invalid_argument(format!(
            "tasks must contain 1 to {MAX_TASKS} tasks."
        )));
    }
    let mut keys = HashSet::new();
    for (at, spec) in specs.iter_mut().enumerate() {
        // They would be one task.
        if let Some(key) = &spec.key
            && !keys.insert(key.clone())
        {
            return Err(ToolError::invalid_argument(format!(
                "tasks[{at}].idempotency_key is that of an earlier task in this call: give each its own."
            )));
        }
        spec.answer_by -= REPORT_TIME;
    }
    let starting = Semaphore::new(MAX_STARTING);
    let creations = specs.into_iter().map(async |spec| {
        // The semaphore is never closed.
        let _permit = starting.acquire().await.ok();
        create(service, call, spec).await
    });
    // A task of the protocol is promised once all of them exist.
    let created = join_all(creations).await.into_iter();
    let tasks = created.map(async |id| {
        let wait = TaskWait::new(service, id?, wait, call);
        wait.follow_quietly().await
    });
    ended(join_all(tasks).await, call)
}

fn ended(ended: Vec<Result<Report, ToolError>>, call: &Call) -> Result<ParallelRuns, ToolError> {
    if call.is_cancelled() {
        let message = "The call was cancelled, and so were its tasks.";
        return Err(ToolError::new(ToolErrorKind::Cancelled, message));
    }
    Ok(ParallelRuns::new(ended))
}

impl RunParallelTasks {
    fn specs(self, service: &OpenHands, wait: WaitFor) -> Result<Vec<TaskSpec>, ToolError> {
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
    pub(super) fn new(ended: Result<Report, ToolError>) -> Self {
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
