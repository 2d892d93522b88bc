//! `start_container`.

use super::prelude::*;
use super::state_change::{self, StateChange};
use crate::docker::permit_start;
use crate::engine::EngineError;

/// Start a container and check that it stays up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartContainer {
    /// Name or id.
    container: ContainerName,
}

impl Tool for StartContainer {
    const NAME: &'static str = "start_container";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        if before.state.status == "running" {
            return Ok(StateChange::none(&before).with_note("It was already running."));
        }
        let id = before.container_id()?;
        start(docker, &self.container, &id).await?;
        state_change::watch_early_exit(docker, &before).await
    }
}

/// Starts the container that the caller calls `name`, if what it mounts is still allowed.
/// Errors with advice if its configuration is the cause.
pub(super) async fn start(
    docker: &Docker,
    name: &ContainerName,
    id: &ContainerName,
) -> Result<(), ToolError> {
    permit_start(&docker.engine, &docker.policy, id).await?;
    let path = Path::container(id, "/start");
    let Err(failure) = docker.engine.try_post(path, None, Duration::ZERO).await else {
        return Ok(());
    };
    if let Some(error) = configuration_error(name, &failure) {
        return Err(error);
    }
    let action = Action::on_container("start", name.as_str());
    Err(docker.explain_action(failure, action).await)
}

/// The error of a start that fails because of the container's configuration, with advice. The status
/// of the reply does not help: the engine uses those of a bad request and of an internal error.
pub(super) fn configuration_error(
    container: &ContainerName,
    failure: &EngineError,
) -> Option<ToolError> {
    let EngineError::Refused { message, .. } = failure else {
        return None;
    };
    let has = |text: &str| message.contains(text);
    let is_port = has("port is already allocated") || has("address already in use");
    let is_exec = has("exec:") || has("executable file");
    let cause = if is_port {
        "a host port that it publishes is taken. list_containers shows which container publishes \
         which port: stop that one, or recreate this one with another port"
    } else if is_exec && has("permission denied") {
        "its command is not executable (exit code 126). get_container shows the command: make the \
         file executable in the image, or recreate the container with another command"
    } else if is_exec && (has("no such file") || has("not found")) {
        "its command is not in the image (exit code 127). get_container shows the command: \
         recreate the container with one that exists"
    } else if has("bind source path does not exist") || has("error mounting") {
        "something that it mounts does not exist or does not fit. get_container shows the mounts"
    } else {
        return None;
    };
    Some(conflict(format!(
        "`{container}` cannot be started: {cause}. The engine said: {message}."
    )))
}
