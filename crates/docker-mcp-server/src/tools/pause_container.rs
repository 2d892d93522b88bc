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
        let (id, unpause) = (before.container_id()?, self.unpause);
        let verb = if unpause { "unpause" } else { "pause" };
        let action = Action::new(verb, ObjectKind::Container, self.container.as_str());
        docker
            .change(action, |engine| async move {
                match unpause {
                    true => engine.unpause_container(id.as_str()).await,
                    false => engine.pause_container(id.as_str()).await,
                }
            })
            .await?;
        state_change::since(docker, &before).await
    }
}
