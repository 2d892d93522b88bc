//! The check of a finished task: a command of its caller, run in its directory.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use upstream::redact::redacted;
use upstream::text::tail;

use super::outcome::TaskStatus;
use super::snapshot::TaskSnapshot;
use crate::api::{AgentServer, ApiResult, shell_quoted};
use crate::tags::ConversationTags;

/// The timeout of the command.
const CHECK_SECONDS: u64 = 900;
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Bytes of its output in a report. The end is kept, because it shows the outcome.
const MAX_OUTPUT_BYTES: usize = 1_000;

/// The state of a check.
pub(super) enum Check {
    /// There is nothing to check, or not yet.
    None,
    Running,
    Done {
        exit_code: i32,
        output: String,
    },
}

/// Runs the command of a finished task once, and waits for its end until `until`.
pub(super) async fn check(
    server: &AgentServer,
    task: &TaskSnapshot,
    until: Instant,
) -> ApiResult<Check> {
    let mut tags = ConversationTags::new(task.conversation.tags.clone());
    let Some(command) = tags
        .verify()
        .filter(|_| task.status() == TaskStatus::Finished)
    else {
        return Ok(Check::None);
    };
    let run = match tags.check(task.steps) {
        Some(run) => run,
        None => {
            let script = script(&task.conversation.workspace.working_dir, command);
            let run = server.start_script(&script, CHECK_SECONDS).await?;
            tags.set_check(run, task.steps);
            server.set_tags(task.id, tags.as_tags()).await?;
            run
        }
    };
    loop {
        if let Some(end) = server.finished_script(run).await? {
            return Ok(Check::Done {
                exit_code: end.exit_code.unwrap_or(-1),
                output: tail(&redacted(end.text().trim_end()), MAX_OUTPUT_BYTES),
            });
        }
        if Instant::now() + POLL_INTERVAL >= until {
            return Ok(Check::Running);
        }
        sleep(POLL_INTERVAL).await;
    }
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
