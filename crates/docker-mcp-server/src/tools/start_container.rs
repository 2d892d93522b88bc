//! `start_container`.

use std::time::Duration;

use super::change::{self, Change};
use super::prelude::*;
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
    type Output = Change;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Change, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        if before.state.status == "running" {
            return Ok(Change::none(&before).with_note("It was already running.".to_owned()));
        }
        let id = before.container_id()?;
        start(docker, &self.container, &id).await?;
        change::settle(docker, &before).await
    }
}

/// Starts the container that the caller calls `name`.
/// Errors with what to do about those that come from its configuration.
pub(super) async fn start(
    docker: &Docker,
    name: &ContainerName,
    id: &ContainerName,
) -> Result<(), ToolError> {
    let id = id.clone();
    let start =
        |engine: bollard::Docker| async move { engine.start_container(id.as_str(), None).await };
    match docker.engine.try_change(Duration::ZERO, start).await {
        Ok(()) => Ok(()),
        Err(failure) => match known_cause(name, &failure) {
            Some(error) => Err(error),
            None => {
                let action = Action::new("start", ObjectKind::Container, name.as_str());
                Err(docker.engine.explain_action(failure, action).await)
            }
        },
    }
}

/// The failures of a start that come from the container's configuration, with what to do about
/// them. The engine reports them with the statuses of a bad request and of its own fault alike.
fn known_cause(container: &ContainerName, failure: &EngineError) -> Option<ToolError> {
    let EngineError::Refused { message, .. } = failure else {
        return None;
    };
    let has = |text: &str| message.contains(text);
    let is_port = has("port is already allocated") || has("address already in use");
    let is_exec = has("exec:") || has("executable file");
    let (kind, cause) = if is_port {
        let cause = "a host port that it publishes is taken. list_containers shows which \
                     container publishes which port: stop that one, or recreate this one with \
                     another port";
        (ToolErrorKind::Conflict, cause)
    } else if is_exec && has("permission denied") {
        let cause = "its command is not executable (exit code 126). get_container shows the \
                     command: make the file executable in the image, or recreate the container \
                     with another command";
        (ToolErrorKind::Conflict, cause)
    } else if is_exec && (has("no such file") || has("not found")) {
        let cause = "its command is not in the image (exit code 127). get_container shows the \
                     command: recreate the container with one that exists";
        (ToolErrorKind::Conflict, cause)
    } else if has("bind source path does not exist") || has("error mounting") {
        let cause = "something that it mounts does not exist or does not fit. get_container \
                     shows the mounts";
        (ToolErrorKind::Conflict, cause)
    } else {
        return None;
    };
    Some(ToolError::new(
        kind,
        format!("`{container}` cannot be started: {cause}. The engine said: {message}."),
    ))
}
