//! Claims: of several calls with one idempotency key one starts the task, and one runs its verify command.
//!
//! Calls of this server wait for each other (`scheduler::starts`). Calls of other replicas see a file on the machine of the
//! agent server, which exists while the task is being started. The call that has it renews its time, so that
//! the claim of a server that crashed is over soon.

mod script;

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use openhands_api::{AgentServer, ApiFailure, ApiResult, TaskId};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use self::script::{OURS, remove, renew, take};

/// The directory of the claims, below the root of tasks.
const DIRECTORY: &str = ".mcp-claims";
/// The interval at which a claim is renewed, and the timeout of a renewal. Three may fail before the claim counts
/// as left behind (`script::STALE_SECONDS`).
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
const RENEW_SECONDS: u64 = 2;
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A claim of this call. Dropping it removes it.
pub(super) struct Claim {
    server: AgentServer,
    path: String,
    nonce: String,
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
        let nonce = TaskId::random().to_string();
        let printed = server.run_script(&take(&path, fingerprint, &nonce)).await?;
        if printed.exit_code != Some(0) {
            return Err(ApiFailure::NotWritable(path));
        }
        Ok(match printed.text().trim() {
            OURS => Claimed::ByUs(Self {
                renewal: keep(server.clone(), &path, &nonce),
                server: server.clone(),
                path,
                nonce,
            }),
            // It is being written.
            "" => Claimed::ByAnother,
            other if other == fingerprint => Claimed::ByAnother,
            _ => Claimed::ForAnotherTask,
        })
    }

    /// Returns true if no other call has taken it over. It is then renewed too.
    pub(super) async fn is_ours(&self) -> ApiResult<bool> {
        let script = renew(&self.path, &self.nonce);
        Ok(self.server.run_script(&script).await?.text().trim() == OURS)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.renewal.abort();
        let (server, script) = (self.server.clone(), remove(&self.path, &self.nonce));
        tokio::spawn(async move {
            if let Err(failure) = server.run_script(&script).await {
                tracing::warn!(?failure, "cannot remove the claim of a key");
            }
        });
    }
}

/// Renews a claim until it is aborted.
fn keep(server: AgentServer, path: &str, nonce: &str) -> AbortHandle {
    let script = renew(path, nonce);
    let renewal = tokio::spawn(async move {
        loop {
            sleep(RENEW_INTERVAL).await;
            if let Err(failure) = server.run_script_for(&script, RENEW_SECONDS).await {
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
