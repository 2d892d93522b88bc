//! `disconnect_network`.

use serde_json::json;

use super::prelude::*;

/// Take a container out of a network; its connections there break.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DisconnectNetwork {
    /// Name or id.
    network: ObjectName,
    /// Name or id.
    container: ContainerName,
    /// The container's name again, if the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for DisconnectNetwork {
    const NAME: &'static str = "disconnect_network";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let container = docker.mutable_container(&self.container).await?;
        let network = docker.network(&self.network).await?;
        let name = container.display_name();
        if !container.is_in_network(&network.name) {
            return Ok(ObjectChange::new(name, "disconnected").with_note("It was not connected."));
        }
        let loss = format!(
            "Breaks all connections of `{name}` in the network `{}`.",
            network.name
        );
        docker.confirm(call, &loss, name, &self.confirm).await?;
        let request = json!({"Container": container.id, "Force": false});
        let path = Path::to("/networks").id(&self.network).then("/disconnect");
        let action = Action::on_container("disconnect", name)
            .with_required(ObjectKind::Network, self.network.as_str());
        docker.post_json(action, path, &request).await?;
        Ok(ObjectChange::new(name, "disconnected").with_note(loss))
    }
}
