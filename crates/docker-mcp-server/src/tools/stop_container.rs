//! `stop_container`.

use super::prelude::*;
use super::state_change::StateChange;

/// The engine's own default, in seconds.
const DEFAULT_GRACE: u32 = 10;

/// Stop a container: SIGTERM, then SIGKILL. Its unsaved data is lost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopContainer {
    /// Name or id.
    container: ContainerName,
    /// Before SIGKILL (default: the container's, mostly 10); the call waits as long.
    timeout_seconds: Option<Bounded<0, 600>>,
    /// Its name again, if stopping removes it (`--rm`) and the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for StopContainer {
    const NAME: &'static str = "stop_container";
    // It loses work in progress and data in memory, and interrupts the users of the service.
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        docker.policy.permit_destructive()?;
        if !before.state.is_alive() {
            return Ok(StateChange::none(&before).with_note("It was not running."));
        }
        // Any other container can be started again as it was.
        if before.host_config.auto_remove {
            let name = before.display_name();
            let loss = format!(
                "Stops `{name}`, which the engine then removes, because it was created with --rm, \
                 with its log and every file it wrote."
            );
            docker.confirm(call, &loss, name, &self.confirm).await?;
        }
        let grace = grace(self.timeout_seconds, &before);
        call.extend_timeout(Duration::from_secs(grace.into()));
        let id = before.container_id()?;
        stop(docker, self.container.as_str(), &id, grace).await?;
        Ok(match docker.container_now(&id).await? {
            Some(after) => stopped(&before, &after, grace),
            None => StateChange::removed(&before),
        })
    }
}

/// Seconds between SIGTERM and SIGKILL: as requested, or as configured in the container.
pub(super) fn grace<const LEAST: u32, const MOST: u32>(
    asked: Option<Bounded<LEAST, MOST>>,
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
    let path = Path::container(id, "/stop").query("t", grace);
    let action = Action::on_container("stop", name);
    docker.post_slow(action, path, grace).await.map(drop)
}

fn stopped(before: &ContainerDetails, after: &ContainerDetails, grace: u32) -> StateChange {
    let code = after.state.exit_code;
    let note = if after.state.is_alive() {
        Some("It was stopped and runs again: something restarted it.".to_owned())
    } else if code == 137 && !after.state.oom_killed {
        Some(format!(
            "It did not end within {grace} s and was killed; a longer timeout_seconds may let it \
             end by itself."
        ))
    } else {
        None
    };
    StateChange {
        exit_code: Some(code),
        note,
        ..StateChange::between(before, after)
    }
}
