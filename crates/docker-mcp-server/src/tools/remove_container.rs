//! `remove_container`.

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{self, Change};
use crate::Docker;
use crate::engine::{Details, Path};
use crate::name::ContainerName;

/// Remove a container, with its log and the files it wrote.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveContainer {
    /// Name or id.
    container: ContainerName,
    /// Also where it runs: kills it.
    #[serde(default)]
    force: bool,
    /// Also its anonymous volumes.
    #[serde(default)]
    volumes: bool,
    /// Its name again, where the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveContainer {
    const NAME: &'static str = "remove_container";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = Change;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Change, ToolError> {
        let before = docker.take(&self.container).await?;
        let name = before.display_name();
        if before.state.is_alive() && !self.force {
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                format!("`{name}` runs: stop it first, or give force: true to kill it."),
            ));
        }
        let loss = self.loss(&before);
        docker
            .confirm(call, &loss, name, self.confirm.as_deref())
            .await?;
        let path = Path::to("/containers")
            .id(&change::id(&before)?)
            .query("force", self.force)
            .query("v", self.volumes);
        change::make(docker, "remove", &self.container, Method::DELETE, path).await?;
        Ok(Change::removed(&before).with_note(loss))
    }
}

impl RemoveContainer {
    fn loss(&self, container: &Details) -> String {
        let name = container.display_name();
        let kill = match container.state.is_alive() {
            true => " while it runs",
            false => "",
        };
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
