//! `restart_container`.

use super::prelude::*;
use super::start_container::start;
use super::state_change::{self, StateChange};
use super::stop_container::{grace, stop};
use crate::docker::permit_start;

/// Stop and start a container, and check that it stays up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestartContainer {
    /// Name or id.
    container: ContainerName,
    /// As in stop_container.
    timeout_seconds: Option<Bounded<0, 600>>,
}

impl Tool for RestartContainer {
    const NAME: &'static str = "restart_container";
    // As stop_container; not idempotent, since repeating it interrupts again.
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        docker.policy.permit_destructive()?;
        let id = before.container_id()?;
        let grace = grace(self.timeout_seconds, &before);
        call.extend_timeout(Duration::from_secs(grace.into()));
        let name = &self.container;
        let binds = permit_start(&docker.engine, &docker.policy, &id).await?;
        if binds.is_empty() || !before.state.is_alive() {
            let path = Path::container(&id, "/restart").query("t", grace);
            let action = Action::on_container("restart", name.as_str());
            docker.post_slow(action, path, grace).await?;
        } else if before.host_config.auto_remove {
            return Err(conflict(
                "It mounts paths of the host, which have to be checked after it was stopped; that removes \
                 it (`--rm`). Stop it, and create it again.",
            ));
        } else {
            let (docker, name) = (docker.clone(), name.clone());
            // A whole, also if the caller leaves: it would stay stopped.
            let work = tokio::spawn(async move {
                let stopped = stop(&docker, name.as_str(), &id, grace).await;
                // What it mounts may change until it has ended.
                let started = start(&docker, &name, &id).await;
                stopped.and(started)
            });
            let lost = |error| ToolError::upstream("The restart broke off.").caused_by(error);
            work.await.map_err(lost)??;
        }
        state_change::watch_early_exit(docker, &before).await
    }
}
