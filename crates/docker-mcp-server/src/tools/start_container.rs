//! `start_container`.

use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{self, Change};
use super::ports;
use crate::Docker;
use crate::engine::{Asked, Failure};
use crate::name::ContainerName;

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
        let before = docker.take(&self.container).await?;
        if before.state.status == "running" {
            return Ok(Change::none(&before).with_note("It was already running.".to_owned()));
        }
        let id = change::id(&before)?;
        if let Err(failure) = docker.engine.start(&id).await {
            if let Some(error) = known_cause(&self.container, &failure) {
                return Err(error);
            }
            let asked = Asked::Change("start", self.container.as_str());
            return Err(docker
                .engine
                .explain_about(failure, &self.container, asked)
                .await);
        }
        change::settle(docker, &before).await
    }
}

/// The failures of a start that come from the container's configuration, with what to do about
/// them. The engine reports them with the statuses of a bad request and of its own fault alike.
pub(super) fn known_cause(container: &ContainerName, failure: &Failure) -> Option<ToolError> {
    let Failure::Answered { message, .. } = failure else {
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

/// Where a container that was just started is published; nothing where that cannot be told.
pub(super) async fn ports(docker: &Docker, id: &ContainerName) -> Vec<String> {
    let now = docker.engine.try_inspect(id).await;
    now.map(|now| ports::of_bindings(&now.network_settings.ports))
        .unwrap_or_default()
}
