//! `remove_volume`.

use super::prelude::*;

/// Remove a volume that no container uses, with all data in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveVolume {
    /// Its name.
    volume: ObjectName,
    /// Its name again, if the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveVolume {
    const NAME: &'static str = "remove_volume";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let volume = docker.volume(&self.volume).await?;
        let name = volume.name.as_str();
        docker.policy.permit_change(name, &volume.labels)?;
        if let Some(users) = docker.volume_usage().await?.remove(name) {
            let users = users.join(", ");
            return Err(conflict(format!(
                "`{name}` is in use by {users} (stopped containers count too)."
            )));
        }
        let loss = format!("Removes the volume `{name}`: all data in it is permanently lost.");
        docker.confirm(call, &loss, name, &self.confirm).await?;
        remove_volume(docker, &self.volume).await?;
        Ok(ObjectChange::new(name, "removed").with_note(loss))
    }
}

/// Removes a volume that no container uses.
pub(super) async fn remove_volume(docker: &Docker, volume: &ObjectName) -> Result<(), ToolError> {
    let action = Action::new("remove", ObjectKind::Volume, volume.as_str());
    docker.delete(action, Path::to("/volumes").id(volume)).await
}
