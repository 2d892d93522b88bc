//! Claims: of several calls with one idempotency key one starts the task, and one runs its verify command.
//!
//! Calls of this server wait for each other (`scheduler::starts`). Calls of other replicas see a file on the machine of the
//! agent server, which exists while the task is being started. The call that has it renews the time in it, so that
//! the claim of a server that crashed is over soon.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use openhands_api::{AgentServer, ApiFailure, ApiResult, TaskId, shell_quoted};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// The directory of the claims, below the root of tasks.
const DIRECTORY: &str = ".mcp-claims";
/// The interval at which a claim is renewed, and the seconds after which one that is not counts as left behind by
/// a server that crashed.
const RENEW_INTERVAL: Duration = Duration::from_secs(2);
const STALE_SECONDS: u32 = 8;
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A claim of this call. Dropping it removes it.
pub(super) struct Claim {
    server: AgentServer,
    path: String,
    renewal: AbortHandle,
}

/// The state of a claim.
pub(super) enum Claimed {
    ByUs(Claim),
    /// By a call for the same task, at another replica.
    ByAnother,
    /// By a call for another task.
    ForAnotherTask,
}

impl Claim {
    /// Claims the key of the task below `root`, an absolute directory.
    pub(super) async fn try_new(
        server: &AgentServer,
        root: &str,
        id: TaskId,
        fingerprint: &str,
    ) -> ApiResult<Claimed> {
        let path = format!("{root}/{DIRECTORY}/{id}");
        // With `set -C` only one shell can create the file.
        let script = format!(
            "file={file}\n\
             mkdir -p -- \"${{file%/*}}\" || exit 1\n\
             find \"$file\" -size 0 -mmin +1 -exec rm -f {{}} \\; 2>/dev/null\n\
             if read -r _ time < \"$file\"; then\n\
             case $time in *[!0-9]*) time=0;; esac\n\
             [ $(($(date +%s) - ${{time:-0}})) -gt {STALE_SECONDS} ] && rm -f -- \"$file\"; fi 2>/dev/null\n\
             for attempt in 1 2; do\n\
             if (set -C; : > \"$file\") 2>/dev/null; then\n\
             echo {fingerprint} $(date +%s) 2>/dev/null > \"$file\" && echo ours && exit 0\n\
             rm -f -- \"$file\"; exit 1; fi\n\
             # Removed in between, or it cannot be created.\n\
             [ -f \"$file\" ] && cut -d ' ' -f 1 -- \"$file\" 2>/dev/null && exit 0\n\
             done; exit 1\n",
            file = shell_quoted(&path),
        );
        let printed = server.run_script(&script).await?;
        if printed.exit_code != Some(0) {
            return Err(ApiFailure::NotWritable(path));
        }
        Ok(match printed.text().trim() {
            // It is being written.
            "" => Claimed::ByAnother,
            "ours" => Claimed::ByUs(Self {
                renewal: renew(server.clone(), &path, fingerprint),
                server: server.clone(),
                path,
            }),
            other if other == fingerprint => Claimed::ByAnother,
            _ => Claimed::ForAnotherTask,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.renewal.abort();
        let (server, file) = (self.server.clone(), shell_quoted(&self.path));
        tokio::spawn(async move {
            if let Err(failure) = server.run_script(&format!("rm -f -- {file}")).await {
                tracing::warn!(?failure, "cannot remove the claim of a key");
            }
        });
    }
}

/// Renews the time of a claim until it is aborted.
fn renew(server: AgentServer, path: &str, fingerprint: &str) -> AbortHandle {
    let file = shell_quoted(path);
    let script = format!("[ -f {file} ] && echo {fingerprint} $(date +%s) > {file}\n");
    let renewal = tokio::spawn(async move {
        loop {
            sleep(RENEW_INTERVAL).await;
            if let Err(failure) = server.run_script(&script).await {
                tracing::debug!(?failure, "cannot renew the claim of a key");
            }
        }
    });
    renewal.abort_handle()
}

/// Waits before the next look at a task that another replica starts.
pub(super) async fn wait_for_other(id: TaskId, answer_by: Instant) -> Result<(), ToolError> {
    if Instant::now() + POLL_INTERVAL > answer_by {
        return Err(being_started(id));
    }
    sleep(POLL_INTERVAL).await;
    Ok(())
}

/// The error for a call whose time is over while another one starts the task.
pub(super) fn being_started(id: TaskId) -> ToolError {
    let message = format!(
        "Another call with this idempotency_key is starting the task: call get_task_status with \
         task_id {id}, or repeat this call."
    );
    ToolError::new(ToolErrorKind::Timeout, message)
}
