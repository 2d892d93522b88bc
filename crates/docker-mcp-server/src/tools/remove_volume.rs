//! `remove_volume`.

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::done::Done;
use super::volumes;
use crate::Docker;
use crate::engine::{Asked, Body, Path};
use crate::name::ObjectName;

/// Remove a volume that no container uses, with all data in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveVolume {
    /// Its name.
    volume: ObjectName,
    /// Its name again, where the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveVolume {
    const NAME: &'static str = "remove_volume";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = Done;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Done, ToolError> {
        let volume = volumes::inspect(docker, &self.volume).await?;
        docker.created_here(&volume.name, &volume.labels)?;
        if let Some(users) = volumes::users(docker).await?.remove(&volume.name) {
            let text = format!(
                "`{}` is in use by {} (stopped containers count too).",
                volume.name,
                users.join(", ")
            );
            return Err(ToolError::new(ToolErrorKind::Conflict, text));
        }
        let loss = format!(
            "Removes the volume `{}`: all data in it is lost for good.",
            volume.name
        );
        docker
            .confirm(call, &loss, &volume.name, self.confirm.as_deref())
            .await?;
        let path = Path::to("/volumes").id(&self.volume);
        match docker.engine.change(Method::DELETE, path, Body::None).await {
            Ok(_) => Ok(Done::new(&volume.name, "removed").with_note(loss)),
            Err(failure) => {
                let asked = Asked::Change("remove", self.volume.as_str());
                Err(volumes::explain(docker, failure, &self.volume, asked).await)
            }
        }
    }
}
