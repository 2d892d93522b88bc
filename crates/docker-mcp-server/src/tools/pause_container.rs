//! `pause_container`.

use super::change::{self, Change};
use super::prelude::*;

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
        let before = docker.mutable_container(&self.container).await?;
        let is_paused = before.state.status == "paused";
        if is_paused != self.unpause && (is_paused || before.state.status == "running") {
            let note = if is_paused {
                "It was paused already."
            } else {
                "It was not paused."
            };
            return Ok(Change::none(&before).with_note(note.to_owned()));
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
        change::compare(docker, &before).await
    }
}
