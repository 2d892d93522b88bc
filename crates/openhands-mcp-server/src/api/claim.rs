//! Claims of tasks: of several replicas one starts a task, and one runs its verify command.
//!
//! A claim is a file on the machine of the agent server. Its owner renews the time of the file, so that the claim of a
//! server that crashed is over soon.

mod script;

use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use self::script::{OURS, remove, renew, take};
use crate::api::agent_server::AgentServer;
use crate::api::failure::{ApiFailure, ApiResult};
use crate::api::task_id::TaskId;

/// The directory of the claims, below the root of tasks.
const DIRECTORY: &str = ".mcp-claims";
/// The interval at which a claim is renewed, and the timeout of a renewal. Three may fail before the claim counts
/// as left behind (`script::STALE_SECONDS`).
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
const RENEW_SECONDS: u64 = 2;

/// A claim of this call. Dropping it removes it.
pub(crate) struct Claim {
    server: AgentServer,
    path: String,
    nonce: String,
    renewal: AbortHandle,
}

pub(crate) enum Claimed {
    /// By this call.
    ByUs(Claim),
    /// By a call for the same task, at another replica.
    ByAnother,
    /// By a call for another task.
    ForAnotherTask,
}

impl Claim {
    /// Claims the task with this id for a call whose arguments have this fingerprint.
    ///
    /// `root` is the absolute directory of tasks.
    ///
    /// # Errors
    /// When the agent server cannot be asked, or the directory is not writable.
    pub(crate) async fn try_new(
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
    ///
    /// # Errors
    /// When the agent server cannot be asked.
    pub(crate) async fn is_ours(&self) -> ApiResult<bool> {
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
