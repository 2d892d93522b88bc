//! `restart_container`.

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{self, Change};
use super::stop_container::grace;
use crate::Docker;
use crate::engine::Asked;
use crate::name::ContainerName;

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
    // As stop_container; and repeating it interrupts again.
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = Change;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Change, ToolError> {
        let engine = &docker.engine;
        let before = docker.take(&self.container).await?;
        docker.policy.destructive()?;
        let id = change::id(&before)?;
        let grace = grace(self.timeout_seconds, &before);
        if let Err(failure) = engine.restart(&id, grace).await {
            let asked = Asked::Change("restart", self.container.as_str());
            return Err(engine.explain_about(failure, &self.container, asked).await);
        }
        change::settle(docker, &before).await
    }
}
