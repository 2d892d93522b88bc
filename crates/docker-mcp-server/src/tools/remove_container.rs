//! `remove_container`.

use super::prelude::*;
use super::state_change::StateChange;

/// Remove a container, with its log and the files it wrote.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveContainer {
    /// Name or id.
    container: ContainerName,
    /// Also if it runs: kills it.
    #[serde(default)]
    force: bool,
    /// Also its anonymous volumes.
    #[serde(default)]
    volumes: bool,
    /// Its name again, if the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveContainer {
    const NAME: &'static str = "remove_container";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        let name = before.display_name();
        if before.state.is_alive() && !self.force {
            return Err(conflict(format!(
                "`{name}` is running: stop it first, or give force: true to kill it."
            )));
        }
        let loss = self.loss(&before);
        docker.confirm(call, &loss, name, &self.confirm).await?;
        let (name, id) = (self.container.as_str(), before.container_id()?);
        remove(docker, name, &id, self.force, self.volumes).await?;
        Ok(StateChange::removed(&before).with_note(loss))
    }
}

impl RemoveContainer {
    fn loss(&self, container: &ContainerDetails) -> String {
        let name = container.display_name();
        let running = container.state.is_alive();
        let kill = if running { " while it runs" } else { "" };
        let volumes = container.mounts.iter().filter(|mount| mount.is_anonymous());
        let volumes: Vec<&str> = volumes.map(|mount| &*mount.destination).collect();
        let data = match (volumes.is_empty(), self.volumes) {
            (true, _) => String::new(),
            (false, true) => format!(", and with the data in {}", volumes.join(", ")),
            (false, false) => format!("; the volumes of {} stay", volumes.join(", ")),
        };
        format!("Removes `{name}`{kill}, with its log and every file it wrote{data}.")
    }
}

/// Removes the container that the caller calls `name`.
pub(super) async fn remove(
    docker: &Docker,
    name: &str,
    id: &ContainerName,
    force: bool,
    volumes: bool,
) -> Result<(), ToolError> {
    let path = Path::container(id, "")
        .query("force", force)
        .query("v", volumes);
    docker
        .delete(Action::on_container("remove", name), path)
        .await
}
