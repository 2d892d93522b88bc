//! The end of a finished task: its work is committed to the branch of its worktree, and a command of its caller is run
//! in its directory.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use upstream::redact::redacted;
use upstream::text::tail;

use super::follow::TaskSnapshot;
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

/// The state of a check.
pub(super) enum Check {
    /// There is nothing to check, or not yet.
    None,
    /// This server is read-only, and no other has run the command.
    NotRun,
    Running,
    /// The run has no outcome.
    Lost,
    Done {
        /// The exit code and the output of the command; `None` without one.
        command: Option<(i32, String)>,
        /// The reason why the work is not on the branch of its worktree.
        not_committed: Option<String>,
    },
}

/// Commits the work of a finished task in a worktree and runs its command, once, and waits for the end until `until`.
pub(super) async fn check(
    service: &OpenHands,
    server: &AgentServer,
    task: &TaskSnapshot,
    until: Instant,
) -> ApiResult<Check> {
    let tags = &task.conversation.tags;
    let is_asked = tags.get(tag::VERIFY).is_some() || has_worktree(task.id, tags.get(tag::BRANCH));
    if !is_asked || task.status() != TaskStatus::Finished {
        return Ok(Check::None);
    }
    let mut known = tags.check(task.steps);
    loop {
        if let Some(run) = known {
            if let Some(end) = server.finished_script(run.script).await? {
                let output = || tail(&redacted(end.text().trim_end()), MAX_OUTPUT_BYTES);
                let code = end.exit_code.unwrap_or(-1);
                // The output of the command is not among the errors of the script.
                let error = Some(end.error()).filter(|error| !error.trim().is_empty());
                return Ok(Check::Done {
                    command: tags.get(tag::VERIFY).map(|_| (code, output())),
                    not_committed: error.map(reason),
                });
            }
            if run.age(server.now()) <= LOST_AFTER {
                if Instant::now() + POLL_INTERVAL >= until {
                    return Ok(Check::Running);
                }
                sleep(POLL_INTERVAL).await;
                continue;
            }
            return Ok(Check::Lost);
        }
        if !service.may_check() {
            return Ok(match tags.get(tag::VERIFY) {
                Some(_) => Check::NotRun,
                None => Check::None,
            });
        }
        // The end of the call must not come between the start and the tag.
        let runner = Arc::clone(&service.runner);
        let started = tokio::spawn(start(runner, server.clone(), task.id));
        known = match timeout_at(until, started).await {
            Ok(Ok(started)) => started?,
            Ok(Err(_)) => return Err(ApiFailure::NoAnswer),
            Err(_) => return Ok(Check::Running),
        };
        if known.is_none() {
            return Ok(Check::None);
        }
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
