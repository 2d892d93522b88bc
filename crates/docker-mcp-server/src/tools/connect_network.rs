//! `connect_network`.

use bollard::models::{EndpointSettings, NetworkConnectRequest};

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
        let endpoint = EndpointSettings {
            aliases: Some(self.aliases.iter().map(ContainerName::to_string).collect()),
            ..EndpointSettings::default()
        };
        let request = NetworkConnectRequest {
            container: container.id.clone(),
            endpoint_config: Some(endpoint),
        };
        let id = self.network.to_string();
        let action = Action::new("connect", ObjectKind::Container, name)
            .with_required(ObjectKind::Network, self.network.as_str());
        docker
            .change(action, |engine| async move {
                engine.connect_network(&id, request).await
            })
            .await?;
        Ok(ObjectChange::new(name, "connected").with_note(format!("to `{}`", network.name)))
    }
}
