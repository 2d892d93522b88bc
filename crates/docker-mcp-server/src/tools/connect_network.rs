//! `connect_network`.

use serde_json::json;

use super::prelude::*;

/// Connect a container to a network.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectNetwork {
    /// Name or id.
    network: ObjectName,
    /// Name or id.
    container: ContainerName,
    /// Further names of it there.
    #[serde(default)]
    aliases: Vec<ContainerName>,
}

impl Tool for ConnectNetwork {
    const NAME: &'static str = "connect_network";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ObjectChange, ToolError> {
        let container = docker.mutable_container(&self.container).await?;
        let network = docker.network(&self.network).await?;
        docker.permit_network(&network.id).await?;
        let name = container.display_name();
        if container.is_in_network(&network.name) {
            return Ok(ObjectChange::new(name, "connected").with_note("It was connected already."));
        }
        let request = json!({
            "Container": container.id,
            "EndpointConfig": {"Aliases": self.aliases},
        });
        let path = Path::to("/networks").id(&self.network).then("/connect");
        let action = Action::on_container("connect", name)
            .with_required(ObjectKind::Network, self.network.as_str());
        docker.post_json(action, path, &request).await?;
        Ok(ObjectChange::new(name, "connected").with_note(format!("to `{}`", network.name)))
    }
}
