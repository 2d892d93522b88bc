//! Tools that run tasks: `run_task` and `run_parallel_tasks`.

use std::collections::HashSet;
use std::mem;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use mcp_core::tool::{
    Bounded, Call, EarlierTask, Effect, TaskSupport, Tool, ToolError, ToolErrorKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use tokio::sync::Semaphore;

use super::wait::{
    MAX_TASKS, RunSummary, TaskWait, WaitFor, WaitSeconds, absent, earlier_tasks, new_id, reference,
};
use crate::OpenHands;
use crate::api::{Confirm, FileName, TaskId};
use crate::budget::Limits;
use crate::git::Repository;
use crate::state::TaskStatus;
use crate::task::{ShortReport, TaskSpec, create, task_of_question};
use crate::workspace::Directory;

/// Gives a coding task to an OpenHands agent, which has a shell and an editor. Returns the result if it is done in time,
/// otherwise status running or queued and the task_id for wait_task.
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
    /// Ignored files of workspace to copy there, such as .env.
    #[serde(default)]
    worktree_files: Vec<FileName>,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// A repeated call with the same key starts no second task, until delete_task.
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
    /// URL to POST the result to.
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
            let mut spec = self.spec(service)?;
            // After a restart the task of the protocol finds its OpenHands task by this id.
            spec.id = new_id(call, 0);
            create(service, call, spec, (wait.answer_by, wait.slot_by())).await?
        };
        let wait = TaskWait::new(service, id, wait, call);
        wait.follow(true).await.map(ShortReport)
    }

    fn task_reference(&self, service: &OpenHands, call: &Call) -> Option<String> {
        let key = self.idempotency_key.as_deref();
        Some(reference([key.map(|key| service.key_id(key, call))]))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        match earlier_tasks(service, task, call).await?[..] {
            [existing] => Ok(Self {
                existing,
                ..Self::default()
            }),
            _ => Err(absent()),
        }
    }
}

impl RunTask {
    fn spec(self, service: &OpenHands) -> Result<TaskSpec, ToolError> {
        let spec = TaskSpec {
            task: self.task,
            key: self.idempotency_key,
            verify: self.verify,
            agent: self.agent,
            model: self.model,
            limits: limits(self.max_iterations, self.max_seconds, self.max_cost),
            confirm: self.confirm,
            callback: service.callbacks.check_given(self.callback_url)?,
            ..TaskSpec::default()
        };
        let worktree = (self.worktree, self.worktree_files);
        with_workspace(spec, self.workspace, worktree, self.context)
    }
}

/// Tasks that are started at once. Each sets up an agent, which uses a processor for a moment.
const MAX_STARTING: usize = 4;
/// The time for the reports after the starts: without it, starts that take all the time lose the ids of their tasks.
const REPORT_TIME: Duration = Duration::from_secs(4);

/// Runs several tasks at once, each in its own directory unless workspace is set. A task without a
/// slot has an error.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunParallelTasks {
    /// 1 to 20, each with task, and context, workspace, worktree, worktree_files, verify and idempotency_key as
    /// in run_task.
    // The schemas of these are there.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    tasks: Vec<TaskArguments>,
    /// For all; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// Of each.
    max_iterations: Option<Bounded<1, 100_000>>,
    /// Of each.
    max_seconds: Option<Bounded<1, 604_800>>,
    /// Of each.
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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct ParallelRuns {
    /// In the order of the call.
    tasks: Vec<RunSummary>,
    /// Tasks that start by themselves later.
    queued: usize,
    /// Next step.
    next: Option<&'static str>,
}

impl Tool for RunParallelTasks {
    const NAME: &'static str = "run_parallel_tasks";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = OpenHands;
    type Output = ParallelRuns;

    async fn call(mut self, service: &OpenHands, call: &Call) -> Result<ParallelRuns, ToolError> {
        let wait = WaitFor::new(self.wait_seconds, service);
        let existing = mem::take(&mut self.existing);
        let tasks = match existing.is_empty() {
            true => start(service, self.specs(service)?, wait, call).await?,
            false => existing.into_iter().map(found).collect(),
        };
        // A task of the protocol is promised once all of them exist.
        let tasks = tasks.into_iter().map(async |id| {
            let mut wait = TaskWait::new(service, id?, wait, call);
            wait.is_quiet = true;
            wait.follow(false).await
        });
        let ended = join_all(tasks).await;
        if call.is_cancelled() {
            let message = "The call was cancelled, and so were its tasks.";
            return Err(ToolError::new(ToolErrorKind::Cancelled, message));
        }
        let tasks: Vec<RunSummary> = ended.into_iter().map(RunSummary::new).collect();
        let count = |status| {
            let runs = tasks.iter().filter(|run| run.status == Some(status));
            runs.count()
        };
        let queued = count(TaskStatus::Queued);
        let open = queued + count(TaskStatus::Running) + count(TaskStatus::Unknown);
        let next = "Call wait_task or get_task_result for each that is not done.";
        Ok(ParallelRuns {
            next: (open > 0).then_some(next),
            tasks,
            queued,
        })
    }

    fn task_reference(&self, service: &OpenHands, call: &Call) -> Option<String> {
        let keys = self
            .tasks
            .iter()
            .map(|task| task.idempotency_key.as_deref());
        let ids = keys.map(|key| key.map(|key| service.key_id(key, call)));
        (self.tasks.len() <= MAX_TASKS).then(|| reference(ids))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        Ok(Self {
            existing: earlier_tasks(service, task, call).await?,
            ..Self::default()
        })
    }
}

/// A task that was begun before a restart of this server; `None` if it is missing.
fn found(id: Option<TaskId>) -> Result<TaskId, ToolError> {
    id.ok_or_else(|| {
        ToolError::not_found(
            "It had not been started when the server was restarted, or was deleted. Run it again.",
        )
    })
}

/// Starts the tasks; an error is that of one of them.
async fn start(
    service: &OpenHands,
    mut specs: Vec<TaskSpec>,
    wait: WaitFor,
    call: &Call,
) -> Result<Vec<Result<TaskId, ToolError>>, ToolError> {
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
        spec.id = new_id(call, at);
    }
    let times = (wait.answer_by - REPORT_TIME, wait.slot_by());
    let starting = Semaphore::new(MAX_STARTING);
    let creations = specs.into_iter().map(async |spec| {
        // The semaphore is never closed.
        let _permit = starting.acquire().await.ok();
        create(service, call, spec, times).await
    });
    Ok(join_all(creations).await)
}

impl RunParallelTasks {
    fn specs(self, service: &OpenHands) -> Result<Vec<TaskSpec>, ToolError> {
        let common = TaskSpec {
            agent: self.agent,
            model: self.model,
            limits: limits(self.max_iterations, self.max_seconds, self.max_cost),
            confirm: self.confirm,
            callback: service.callbacks.check_given(self.callback_url)?,
            ..TaskSpec::default()
        };
        let spec = |(at, task): (usize, TaskArguments)| {
            task.spec(&common).map_err(|error| {
                ToolError::new(error.kind(), format!("tasks[{at}]: {}", error.message()))
            })
        };
        self.tasks.into_iter().enumerate().map(spec).collect()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Context {
    /// Relative path of one file, such as src/app.py.
    file: Option<FileName>,
    /// Its content.
    content: Option<String>,
    /// Of the content; default text.
    encoding: Option<Encoding>,
    /// Several files.
    #[serde(default)]
    files: Vec<ContextFile>,
    /// Git URL to check out.
    repository: Option<String>,
    /// Its branch.
    branch: Option<String>,
    /// Commits of all branches, 0 for all; default the newest of one.
    depth: Option<Bounded<0, 1_000_000>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ContextFile {
    /// Relative path.
    file: FileName,
    /// Its content.
    content: String,
    /// Default text.
    encoding: Option<Encoding>,
}

/// The encoding of a file's content.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    Base64,
}

impl ContextFile {
    /// The content in bytes.
    fn decoded(self) -> Result<(FileName, Vec<u8>), ToolError> {
        let content = match self.encoding {
            None => self.content.into_bytes(),
            Some(Encoding::Base64) => {
                let packed: String = self.content.split_ascii_whitespace().collect();
                STANDARD.decode(packed).map_err(|_| {
                    let name = self.file.as_str();
                    ToolError::invalid_argument(format!(
                        "context: the content of {name} is not valid base64. Leave encoding out \
                         for text."
                    ))
                })?
            }
        };
        Ok((self.file, content))
    }
}

/// The arguments that describe one task.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskArguments {
    task: String,
    context: Option<Context>,
    workspace: Option<String>,
    worktree: Option<bool>,
    #[serde(default)]
    worktree_files: Vec<FileName>,
    idempotency_key: Option<String>,
    verify: Option<String>,
}

/// The limits that a caller asks for.
pub(super) fn limits(
    steps: Option<Bounded<1, 100_000>>,
    seconds: Option<Bounded<1, 604_800>>,
    cost: Option<f64>,
) -> Limits {
    Limits {
        steps: steps.map(|steps| steps.get().into()),
        seconds: seconds.map(|seconds| seconds.get().into()),
        cost,
    }
}

impl Context {
    fn apply(self, spec: &mut TaskSpec) -> Result<(), ToolError> {
        let single = match (self.file, self.content) {
            (Some(file), Some(content)) => Some(ContextFile {
                file,
                content,
                encoding: self.encoding,
            }),
            (None, None) if self.encoding.is_none() => None,
            (None, None) => return refuse("context.encoding needs context.content."),
            (Some(_), None) => {
                return refuse("context.content is missing: pass the content of the file.");
            }
            (None, Some(_)) => {
                return refuse(
                    "context.file is missing: pass the name of the file for the content.",
                );
            }
        };
        let workspace = &mut spec.workspace;
        for file in single.into_iter().chain(self.files) {
            workspace.files.push(file.decoded()?);
        }
        match (&self.repository, &self.branch) {
            (Some(url), branch) => {
                let repository = Repository::new(url, branch.as_deref());
                workspace.repository = Some(repository.map_err(ToolError::invalid_argument)?);
            }
            (None, Some(_)) => return refuse("context.branch needs context.repository."),
            (None, None) if self.depth.is_some() => {
                return refuse("context.depth needs context.repository.");
            }
            (None, None) => {}
        }
        workspace.depth = self.depth.map(Bounded::get);
        Ok(())
    }
}

impl TaskArguments {
    /// The specification of the task; `common` is that of all tasks of the call.
    fn spec(self, common: &TaskSpec) -> Result<TaskSpec, ToolError> {
        let spec = TaskSpec {
            task: self.task,
            key: self.idempotency_key,
            verify: self.verify,
            ..common.clone()
        };
        let worktree = (self.worktree, self.worktree_files);
        with_workspace(spec, self.workspace, worktree, self.context)
    }
}

/// The whole specification of a task: with the place where it works, and the content of that.
fn with_workspace(
    mut spec: TaskSpec,
    directory: Option<String>,
    (worktree, worktree_files): (Option<bool>, Vec<FileName>),
    context: Option<Context>,
) -> Result<TaskSpec, ToolError> {
    let directory = directory.as_deref().map(Directory::new).transpose();
    spec.workspace.directory =
        directory.map_err(|reason| ToolError::invalid_argument(format!("workspace {reason}.")))?;
    spec.workspace.has_worktree = worktree.unwrap_or_default();
    spec.workspace.worktree_files = worktree_files;
    if let Some(context) = context {
        context.apply(&mut spec)?;
    }
    spec.checked()
}

fn refuse(reason: &str) -> Result<(), ToolError> {
    Err(ToolError::invalid_argument(reason))
}
