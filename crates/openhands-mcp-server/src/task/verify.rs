//! The end of a finished task: its work is committed to the branch of its worktree, and a command of its caller is run
//! in its directory.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use upstream::redact::redacted;
use upstream::text::tail;

use super::follow::TaskSnapshot;
use super::report::Report;
use crate::OpenHands;
use crate::api::tags::{CheckRun, ConversationTags, tag};
use crate::api::{AgentServer, ApiFailure, ApiResult, TaskId, shell_quoted};
use crate::git::{branch_script, reason};
use crate::runner::Runner;
use crate::state::TaskStatus;
use crate::workspace::{changed_directory, has_worktree, worktree_branch};

/// The timeout of the command.
const CHECK_SECONDS: u64 = 900;
/// A run without an outcome after this time has lost it.
const LOST_AFTER: Duration = Duration::from_secs(CHECK_SECONDS + 60);
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Bytes of its output in a report. The end is kept, because it shows the outcome.
const MAX_OUTPUT_BYTES: usize = 1_000;

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
                if Instant::now() + POLL_INTERVAL >= until {
                    break 'runs;
                }
                sleep(POLL_INTERVAL).await;
            };
            if command.is_some() {
                let exit_code = end.exit_code.unwrap_or(-1);
                self.verified = Some(exit_code == 0);
                self.verify_exit_code = Some(exit_code);
                let output = tail(&redacted(end.text().trim_end()), MAX_OUTPUT_BYTES);
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
    let task = TaskSnapshot::read(&server, id).await?;
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
    let now = TaskSnapshot::read(&server, id).await?;
    if now.status() != TaskStatus::Finished || now.steps != task.steps {
        return Ok(None);
    }
    let mut tags = ConversationTags::from_task(&now.conversation);
    tags.set_check(&run);
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
