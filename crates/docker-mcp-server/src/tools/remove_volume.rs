//! `remove_volume`.

use bollard::query_parameters::RemoveVolumeOptions;

use super::done::Done;
use super::prelude::*;

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
        let volume = docker.mutable_volume(&self.volume).await?;
        if let Some(users) = docker.users_of_volumes().await?.remove(&volume.name) {
            let text = format!(
                "`{}` is in use by {} (stopped containers count too).",
                volume.name,
                users.join(", ")
            );
            return Err(conflict(text));
        }
        let loss = format!(
            "Removes the volume `{}`: all data in it is lost for good.",
            volume.name
        );
        docker
            .confirm(call, &loss, &volume.name, &self.confirm)
            .await?;
        remove_volume(docker, &self.volume).await?;
        Ok(Done::new(&volume.name, "removed").with_note(loss))
    }
}

/// Removes a volume that no container uses.
pub(super) async fn remove_volume(docker: &Docker, volume: &ObjectName) -> Result<(), ToolError> {
    let name = volume.to_string();
    let action = Action::new("remove", Kind::Volume, volume.as_str());
    docker
        .change(action, |engine| async move {
            engine
                .remove_volume(&name, None::<RemoveVolumeOptions>)
                .await
        })
        .await
}
