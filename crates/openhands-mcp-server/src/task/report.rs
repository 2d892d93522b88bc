//! The report about a task, which most tools return, and the command that checks a finished one.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;
use tokio::time::{Instant, sleep, timeout_at};
use upstream::redact::redacted;
use upstream::text::{one_line, tail};

use super::follow::{MAX_RESULT_BYTES, ObservedTask, TaskSnapshot, shown_message, shown_output};
use super::permission::Confirmation;
use crate::OpenHands;
use crate::api::tags::{CheckRun, ConversationTags, tag};
use crate::api::{AgentServer, ApiFailure, ApiResult, TaskId, shell_quoted};
use crate::git::{ChangesQuery, branch_script, reason};
use crate::runner::Runner;
use crate::state::{TaskOutcome, TaskStatus};
use crate::workspace::{changed_directory, has_worktree, read_changes, worktree_branch};

/// The time that a report leaves for its way to the caller, and the shortest wait for a verify command.
const CHECK_RESERVE: Duration = Duration::from_secs(1);
const MIN_CHECK_WAIT: Duration = Duration::from_secs(3);
/// Bytes of the list of changed files.
const MAX_CHANGED_BYTES: usize = 900;
const MAX_MODEL_CHARS: usize = 80;

/// The state of a task and its results.
#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// For the other tools.
    pub(crate) task_id: TaskId,
    pub(crate) status: TaskStatus,
    /// Agent's last message.
    pub(crate) result: Option<String>,
    // Where the rest of the result starts; undescribed, since it is in the schema of each tool.
    pub(crate) next_offset: Option<u64>,
    /// Output of its last command.
    pub(crate) last_output: Option<String>,
    /// Of that command.
    exit_code: Option<i64>,
    /// The verify command succeeded.
    pub(crate) verified: Option<bool>,
    pub(crate) verify_exit_code: Option<i32>,
    /// Its last lines.
    pub(crate) verify_output: Option<String>,
    /// Actions taken so far.
    steps: Option<u64>,
    /// The last of them.
    last_action: Option<String>,
    /// The actions that wait.
    // Its schema would be in that of each tool.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(crate) confirmation: Option<Confirmation>,
    /// US dollars.
    cost: Option<f64>,
    /// Read and written.
    tokens: Option<u64>,
    model: Option<String>,
    /// Time of its runs.
    seconds: Option<u64>,
    /// Its directory on the machine of the agent.
    directory: Option<String>,
    /// Branch there.
    branch: Option<String>,
    /// Such as "M src/a.py": added, modified, deleted, renamed.
    changed_files: Option<Vec<String>>,
    /// Gaps and doubts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// Why it is not done.
    pub(crate) error: Option<String>,
    /// Next step.
    pub(crate) next: Option<String>,
}

/// A report of which the schema names only what is always there: the whole one is that of get_task_result, and would be
/// repeated for each tool.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct ShortReport(pub(crate) Report);

impl JsonSchema for ShortReport {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ShortReport".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "task_id": generator.subschema_for::<TaskId>(),
                "status": generator.subschema_for::<TaskStatus>(),
            },
            "required": ["task_id", "status"],
        })
    }
}

impl Report {
    /// The report after a wait. Never an error: the task exists, and an error would lose its id.
    pub(crate) async fn new(
        service: &OpenHands,
        id: TaskId,
        seen: ObservedTask,
        (until, answer_by): (Instant, Instant),
    ) -> Self {
        let until = until.max(Instant::now() + MIN_CHECK_WAIT);
        let until = until.min(answer_by - CHECK_RESERVE);
        let mut report = match &seen.task {
            Some(task) => Self::from_snapshot(task),
            None => Self::from_id(id),
        };
        if let Some(task) = &seen.task
            && task.status().is_settled()
        {
            let added = async {
                let server = service.servers.for_task(id).await?;
                let read = report.add_results(&server, task, MAX_RESULT_BYTES).await;
                report.add_check(service, &server, task, until).await?;
                read
            };
            let added = timeout_at(answer_by, added).await;
            if !matches!(added, Ok(Ok(()))) {
                let failure = added.map(Result::err);
                tracing::warn!(task = %id, ?failure, "cannot read the result");
                report.next = Some("Call get_task_result for the result.".into());
            }
        }
        // The call has started the task, so that much is known.
        let failure = seen
            .failure
            .filter(|failure| !matches!(failure, ApiFailure::NoAnswer));
        if let Some(failure) = failure {
            report.set_outcome(match failure.sandbox_problem() {
                Some(problem) => TaskOutcome::from_sandbox_problem(problem),
                None => TaskOutcome::failed(
                    TaskStatus::Unknown,
                    ToolError::from(failure).message(),
                    "The task was started and may be running: call get_task_status, do not run it again.",
                ),
            });
        }
        report
    }

    /// The state of a task without its results.
    pub(crate) fn from_snapshot(task: &TaskSnapshot) -> Self {
        let mut report = Self::from_id(task.id);
        report.steps = Some(task.steps);
        report.last_action = task.last_action();
        let pending = task.pending.as_ref();
        report.confirmation = pending.map(|pending| pending.at_offset(0));
        // OpenHands reports 0 for a model without a known price.
        let stats = &task.conversation.stats;
        report.cost = Some(stats.cost()).filter(|cost| *cost > 0.0);
        report.tokens = Some(stats.tokens()).filter(|tokens| *tokens > 0);
        report.model = stats.model().map(|model| one_line(model, MAX_MODEL_CHARS));
        report.set_outcome(task.outcome.clone());
        let tags = ConversationTags::from_task(&task.conversation);
        // Behind an app server there are no tags.
        report.seconds = match tags.seconds() {
            Some(_) => Some(tags.seconds_used(task.now)),
            None => task.conversation.seconds(),
        };
        if let Some(names) = tags.get(tag::DEAD_SERVERS) {
            report.warnings.push(format!(
                "These MCP servers did not answer when the task was created, so the agent may lack \
                 their tools: {names}."
            ));
        }
        if let Some(gaps) = tags.get(tag::GAPS) {
            report
                .warnings
                .push(format!("Parts of the repository are not there: {gaps}."));
        }
        if let Some(reason) = tags.no_base() {
            report.warnings.push(format!(
                "The state of its directory before the task could not be recorded: {reason}."
            ));
        }
        if let Some(Err(reason)) = tags.delivery() {
            report.warnings.push(format!(
                "callback_url did not take the result ({reason}). It is not tried again."
            ));
        }
        report
    }

    /// The report about a task whose sandbox does not run.
    ///
    /// # Errors
    /// The failure has another reason.
    pub(crate) fn from_failure(id: TaskId, failure: ApiFailure) -> Result<Self, ToolError> {
        let Some(problem) = failure.sandbox_problem() else {
            return Err(failure.into());
        };
        let mut report = Self::from_id(id);
        report.set_outcome(TaskOutcome::from_sandbox_problem(problem));
        Ok(report)
    }

    /// Adds the results so far, even if the task has not ended: also those that could be read if others could not.
    pub(crate) async fn add_results(
        &mut self,
        server: &AgentServer,
        task: &TaskSnapshot,
        max_result: usize,
    ) -> ApiResult<()> {
        let directory = &task.conversation.workspace.working_dir;
        self.directory = Some(directory.clone()).filter(|path| !path.is_empty());
        let tags = &task.conversation.tags;
        self.branch = tags.get(tag::BRANCH).map(str::to_owned);
        let said = async {
            let message = task.read_message(server).await?;
            (self.result, self.next_offset) = shown_message(&message, max_result);
            Ok(())
        };
        let printed = async {
            let (output, exit_code) = task.read_output(server).await?;
            (self.last_output, self.exit_code) = (shown_output(&output), exit_code);
            // The output says more than the action.
            self.last_action = None;
            Ok(())
        };
        let query = ChangesQuery::default();
        let changed = async {
            match read_changes(server, &task.conversation, &query).await {
                Ok(changed) => {
                    let lines = changed.lines(0, MAX_CHANGED_BYTES);
                    self.changed_files = (changed.count > 0).then_some(lines);
                    let warnings = changed.warnings.into_iter();
                    self.warnings.extend(warnings.map(str::to_owned));
                }
                Err(ApiFailure::Git(reason)) => self.warnings.push(reason),
                Err(failure) => return Err(failure),
            }
            Ok(())
        };
        let (said, printed, changed) = tokio::join!(said, printed, changed);
        said.and(printed).and(changed)
    }

    /// The report about a task that was started and not polled yet.
    fn from_id(id: TaskId) -> Self {
        Self {
            task_id: id,
            next: Some("Call wait_task for its end, get_task_result for its result.".into()),
            ..Self::default()
        }
    }

    fn set_outcome(&mut self, outcome: TaskOutcome) {
        self.status = outcome.status;
        self.error = outcome.error;
        self.next = outcome.next.map(str::to_owned);
    }
}

// The end of a finished task: its work is committed to the branch of its worktree, and a command of its caller is run in
// its directory.

/// The timeout of the command.
const CHECK_SECONDS: u64 = 900;
/// A run without an outcome after this time has lost it.
const LOST_AFTER: Duration = Duration::from_secs(CHECK_SECONDS + 60);
const CHECK_INTERVAL: Duration = Duration::from_millis(300);
/// Bytes of its output in a report. The end is kept, because it shows the outcome.
const MAX_CHECK_BYTES: usize = 1_000;

/// Warnings about the command.
const NOT_RUN: &str = "Its verify command was not run, because this MCP server is read-only.";
const LOST: &str = "The outcome of its verify command was lost: the agent server may have been \
    restarted. Check the work yourself.";

impl Report {
    /// Commits the work of a finished task in a worktree and runs its command, once, and adds the outcome if the command
    /// ends before `until`.
    ///
    /// Returns false if it still runs.
    pub(crate) async fn add_check(
        &mut self,
        service: &OpenHands,
        server: &AgentServer,
        task: &TaskSnapshot,
        until: Instant,
    ) -> ApiResult<bool> {
        let tags = &task.conversation.tags;
        let command = tags.get(tag::VERIFY);
        let is_asked = command.is_some() || has_worktree(task.id, tags.get(tag::BRANCH));
        if !is_asked || task.status() != TaskStatus::Finished {
            return Ok(true);
        }
        'runs: {
            let mut known = tags.check(task.steps);
            if known.is_none() {
                if !service.may_check() {
                    self.warnings.extend(command.map(|_| NOT_RUN.to_owned()));
                    return Ok(true);
                }
                // The end of the call must not come between the start and the tag.
                let runner = Arc::clone(&service.runner);
                let started = tokio::spawn(start(runner, server.clone(), task.id));
                let Ok(started) = timeout_at(until, started).await else {
                    break 'runs;
                };
                known = started.unwrap_or(Err(ApiFailure::NoAnswer))?;
            }
            let Some(run) = known else { return Ok(true) };
            let end = loop {
                if let Some(end) = server.finished_script(run.script).await? {
                    break end;
                }
                if run.age(server.now()) > LOST_AFTER {
                    self.warnings.push(LOST.to_owned());
                    return Ok(true);
                }
                if Instant::now() + CHECK_INTERVAL >= until {
                    break 'runs;
                }
                sleep(CHECK_INTERVAL).await;
            };
            if command.is_some() {
                let exit_code = end.exit_code.unwrap_or(-1);
                self.verified = Some(exit_code == 0);
                self.verify_exit_code = Some(exit_code);
                let output = tail(&redacted(end.text().trim_end()), MAX_CHECK_BYTES);
                self.verify_output = Some(output);
            }
            // The output of the command is not among the errors of the script.
            if !end.error().trim().is_empty() {
                self.warnings.push(format!(
                    "The work is not committed to the branch of its worktree: {}.",
                    reason(end.error())
                ));
            }
            return Ok(true);
        }
        self.next = Some("Its verify command runs: call wait_task for its outcome.".into());
        Ok(false)
    }
}

/// The exit code of the command for the present state of a task, if it has ended. Does not run it.
pub(crate) async fn known_exit_code(
    server: &AgentServer,
    task: &TaskSnapshot,
) -> ApiResult<Option<i32>> {
    let Some(run) = task.conversation.tags.check(task.steps) else {
        return Ok(None);
    };
    let end = server.finished_script(run.script).await?;
    Ok(end.and_then(|end| end.exit_code))
}

/// Starts the command, unless another call has started it. Of two servers that do at the same moment, the last tag
/// counts. Returns `None` if the task is not finished any longer.
async fn start(
    runner: Arc<Runner>,
    server: AgentServer,
    id: TaskId,
) -> ApiResult<Option<CheckRun>> {
    let _lock = runner.locks.lock(id).await;
    let task = TaskSnapshot::read(&server, id, None).await?;
    let known = task.conversation.tags.check(task.steps);
    if known.is_some() {
        return Ok(known);
    }
    let is_finished = task.status() == TaskStatus::Finished;
    let tags = &task.conversation.tags;
    if !is_finished {
        return Ok(None);
    }
    let directory = changed_directory(&server, &task.conversation).await?;
    let commit = has_worktree(id, tags.get(tag::BRANCH)).then(|| {
        let title = tags.get(tag::TITLE).unwrap_or("A task of OpenHands");
        branch_script(&directory, &worktree_branch(id), title)
    });
    let script = script(directory.path, commit.as_deref(), tags.get(tag::VERIFY));
    let script = server.start_script(&script, CHECK_SECONDS).await?;
    let run = CheckRun::new(script, task.steps, server.now());
    // All tags are replaced, so those of a run that has begun meanwhile would be lost.
    let now = TaskSnapshot::read(&server, id, None).await?;
    if now.status() != TaskStatus::Finished || now.steps != task.steps {
        return Ok(None);
    }
    let mut tags = ConversationTags::from_task(&now.conversation);
    tags.set(tag::CHECK, Some(json!(run).to_string()));
    server.set_tags(id, &tags).await?;
    Ok(Some(run))
}

/// The commands in its directory: a commit, and the command of the caller with the end of its output.
fn script(directory: &str, commit: Option<&str>, command: Option<&str>) -> String {
    let run = command.map(|command| {
        format!(
            "output=$(mktemp) || exit 76\n\
             trap 'rm -f -- \"$output\"' EXIT\n\
             \"$(command -v bash || echo sh)\" -c {} > \"$output\" 2>&1 < /dev/null\n\
             code=$?\n\
             tail -c 3000 -- \"$output\"\n\
             exit $code\n",
            shell_quoted(command)
        )
    });
    // What git prints is an error only if it fails.
    let commit = commit.map(|commit| {
        format!(
            "said=$({{\n{commit}}} 2>&1) || printf '%s\\n' \"${{said:-git took too long}}\" >&2\n"
        )
    });
    format!(
        "cd -P -- {} || exit 74\n{}{}",
        shell_quoted(directory),
        commit.unwrap_or_default(),
        run.unwrap_or("exit 0\n".to_owned()),
    )
}
