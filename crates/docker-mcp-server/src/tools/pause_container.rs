//! `pause_container`.

use super::prelude::*;
use super::state_change::{self, StateChange};

/// Freeze the processes of a container, or resume them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseContainer {
    /// Name or id.
    container: ContainerName,
    /// Resume instead.
    #[serde(default)]
    unpause: bool,
}

impl Tool for PauseContainer {
    const NAME: &'static str = "pause_container";
    // It interrupts the users of the service; resuming it does not.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        if !self.unpause {
            docker.policy.permit_destructive()?;
        }
        let is_paused = before.state.status == "paused";
        if is_paused != self.unpause && (is_paused || before.state.status == "running") {
            let note = match is_paused {
                true => "It was paused already.",
                false => "It was not paused.",
            };
            return Ok(StateChange::none(&before).with_note(note));
        }
        let id = before.container_id()?;
        let (verb, path) = match self.unpause {
            true => ("unpause", Path::container(&id, "/unpause")),
            false => ("pause", Path::container(&id, "/pause")),
        };
        let action = Action::on_container(verb, self.container.as_str());
        docker.post(action, path).await?;
        state_change::since(docker, &before).await
    }
}
