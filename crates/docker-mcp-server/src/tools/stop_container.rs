//! `stop_container`.

use std::time::Duration;

use bollard::query_parameters::StopContainerOptionsBuilder;

use super::change::Change;
use super::prelude::*;

/// The engine's own default, in seconds.
const DEFAULT_GRACE: u32 = 10;

/// Stop a container: SIGTERM, then SIGKILL. What it had not saved is lost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopContainer {
    /// Name or id.
    container: ContainerName,
    /// Before SIGKILL (default: the container's, mostly 10).
    timeout_seconds: Option<Bounded<0, 600>>,
    /// Its name again, where stopping removes it (`--rm`) and the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for StopContainer {
    const NAME: &'static str = "stop_container";
    // Work in progress and what is in memory are gone, and whoever used the service notices.
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = Change;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Change, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        docker.policy.permit_destructive()?;
        if !before.state.is_alive() {
            return Ok(Change::none(&before).with_note("It was not running.".to_owned()));
        }
        // Any other container is started again as it was.
        if before.host_config.auto_remove {
            let name = before.display_name();
            let loss = format!(
                "Stops `{name}`, which the engine then removes, as it was created to be (--rm), \
                 with its log and every file it wrote."
            );
            docker.confirm(call, &loss, name, &self.confirm).await?;
        }
        let grace = grace(self.timeout_seconds, &before);
        let id = before.container_id()?;
        stop(docker, self.container.as_str(), &id, grace).await?;
        Ok(match docker.container_now(&id).await? {
            Some(after) => stopped(&before, &after, grace),
            None => Change::removed(&before),
        })
    }
}

/// Seconds between SIGTERM and SIGKILL: as asked for, or as the container was created.
pub(super) fn grace<const MIN: u32, const MAX: u32>(
    asked: Option<Bounded<MIN, MAX>>,
    container: &ContainerDetails,
) -> u32 {
    let own = container.config.stop_timeout.unwrap_or(DEFAULT_GRACE);
    asked.map_or(own, Bounded::get)
}

/// Stops the container that the caller calls `name`: SIGTERM, and after `grace` seconds SIGKILL.
pub(super) async fn stop(
    docker: &Docker,
    name: &str,
    id: &ContainerName,
    grace: u32,
) -> Result<(), ToolError> {
    let id = id.clone();
    let options = StopContainerOptionsBuilder::new()
        .t(grace.cast_signed())
        .build();
    let action = Action::new("stop", ObjectKind::Container, name)
        .with_duration(Duration::from_secs(grace.into()));
    docker
        .change(action, |engine| async move {
            engine.stop_container(id.as_str(), Some(options)).await
        })
        .await
}

fn stopped(before: &ContainerDetails, after: &ContainerDetails, grace: u32) -> Change {
    let code = after.state.exit_code;
    let change = Change::between(before, after).with_exit_code(code);
    if after.state.is_alive() {
        return change.with_note("It was stopped and runs again: something restarted it.".into());
    }
    if code == 137 && !after.state.oom_killed {
        return change.with_note(format!(
            "It did not end within {grace} s and was killed; a longer timeout_seconds may let it \
             end by itself."
        ));
    }
    change
}
