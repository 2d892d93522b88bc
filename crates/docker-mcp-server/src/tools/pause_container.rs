//! `pause_container`.

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{self, Change};
use crate::Docker;
use crate::engine::Path;
use crate::name::ContainerName;

/// Freeze the processes of a container, or let them go on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseContainer {
    /// Name or id.
    container: ContainerName,
    /// Go on instead.
    #[serde(default)]
    unpause: bool,
}

impl Tool for PauseContainer {
    const NAME: &'static str = "pause_container";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = Change;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Change, ToolError> {
        let before = docker.take(&self.container).await?;
        let is_paused = before.state.status == "paused";
        if is_paused != self.unpause && (is_paused || before.state.status == "running") {
            let note = if is_paused {
                "It was paused already."
            } else {
                "It was not paused."
            };
            return Ok(Change::none(&before).with_note(note.to_owned()));
        }
        let (verb, action) = match self.unpause {
            true => ("unpause", "/unpause"),
            false => ("pause", "/pause"),
        };
        let path = Path::to("/containers")
            .id(&change::id(&before)?)
            .then(action);
        change::make(docker, verb, &self.container, Method::POST, path).await?;
        change::compare(docker, &before).await
    }
}
