//! The check of a finished task: a command of its caller, run in its directory.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use upstream::redact::redacted;
use upstream::text::tail;

use super::outcome::TaskStatus;
use super::snapshot::TaskSnapshot;
use crate::OpenHands;
use crate::api::{AgentServer, ApiFailure, ApiResult, TaskId, shell_quoted};
use crate::runner::Runner;
use crate::tags::{CheckRun, ConversationTags};

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
    /// The run has no outcome, and neither has a second one.
    Lost,
    Done {
        exit_code: i32,
        output: String,
    },
}

/// Runs the command of a finished task once, and waits for its end until `until`.
pub(super) async fn check(
    service: &OpenHands,
    server: &AgentServer,
    task: &TaskSnapshot,
    until: Instant,
) -> ApiResult<Check> {
    let tags = ConversationTags::new(task.conversation.tags.clone());
    if tags.verify().is_none() || task.status() != TaskStatus::Finished {
        return Ok(Check::None);
    }
    let mut known = tags.check(task.steps);
    loop {
        if let Some(run) = known {
            if let Some(end) = server.finished_script(run.script).await? {
                return Ok(Check::Done {
                    exit_code: end.exit_code.unwrap_or(-1),
                    output: tail(&redacted(end.text().trim_end()), MAX_OUTPUT_BYTES),
                });
            }
            if run.age() <= LOST_AFTER {
                if Instant::now() + POLL_INTERVAL >= until {
                    return Ok(Check::Running);
                }
                sleep(POLL_INTERVAL).await;
                continue;
            }
            if run.is_repeat {
                return Ok(Check::Lost);
            }
        }
        if !service.may_check() {
            return Ok(known.map_or(Check::NotRun, |_| Check::Lost));
        }
        // The end of the call must not come between the start and the tag.
        let runner = Arc::clone(&service.runner);
        let started = tokio::spawn(start(runner, server.clone(), task.id, known));
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
    let tags = ConversationTags::new(task.conversation.tags.clone());
    let Some(run) = tags.check(task.steps) else {
        return Ok(None);
    };
    let end = server.finished_script(run.script).await?;
    Ok(end.and_then(|end| end.exit_code))
}

/// Starts the command, unless another call has started it since the run `lost`. Of two servers that do at the same
/// moment, the last tag counts. Returns `None` if the
/// task is not finished any longer.
async fn start(
    runner: Arc<Runner>,
    server: AgentServer,
    id: TaskId,
    lost: Option<CheckRun>,
) -> ApiResult<Option<CheckRun>> {
    let _lock = runner.locks.lock(id).await;
    let task = TaskSnapshot::read(&server, id).await?;
    let known = ConversationTags::new(task.conversation.tags.clone()).check(task.steps);
    if known.is_some() && known != lost {
        return Ok(known);
    }
    let is_finished = task.status() == TaskStatus::Finished;
    let tags = ConversationTags::new(task.conversation.tags);
    let Some(command) = tags.verify().filter(|_| is_finished) else {
        return Ok(None);
    };
    let script = script(&task.conversation.workspace.working_dir, command);
    let script = server.start_script(&script, CHECK_SECONDS).await?;
    let run = CheckRun::new(script, task.steps, known.is_some());
    // All tags are replaced, so those of a run that has begun meanwhile would be lost.
    let now = TaskSnapshot::read(&server, id).await?;
    if now.status() != TaskStatus::Finished || now.steps != task.steps {
        return Ok(None);
    }
    let mut tags = ConversationTags::from_task(&now.conversation);
    tags.set_check(&run);
    server.set_tags(id, tags.as_tags()).await?;
    Ok(Some(run))
}

/// The command in its directory, with the end of its output.
fn script(directory: &str, command: &str) -> String {
    format!(
        "cd -P -- {} || exit 74\n\
         output=$(mktemp) || exit 76\n\
         trap 'rm -f -- \"$output\"' EXIT\n\
         \"$(command -v bash || echo sh)\" -c {} > \"$output\" 2>&1 < /dev/null\n\
         code=$?\n\
         tail -c 3000 -- \"$output\"\n\
         exit $code\n",
        shell_quoted(directory),
        shell_quoted(command),
    )
}
