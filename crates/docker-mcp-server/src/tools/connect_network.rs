//! `connect_network`.

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::done::Done;
use super::networks;
use crate::Docker;
use crate::engine::{Asked, Body, Path};
use crate::name::{ContainerName, ObjectName};
use crate::policy::Wanted;

/// Connect a container to a network.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectNetwork {
    /// Name or id.
    network: ObjectName,
    /// Name or id.
    container: ContainerName,
    /// Further names that it is found by there.
    #[serde(default)]
    aliases: Vec<ContainerName>,
}

impl Tool for ConnectNetwork {
    const NAME: &'static str = "connect_network";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = Done;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Done, ToolError> {
        let container = docker.take(&self.container).await?;
        let network = networks::inspect(docker, &self.network).await?;
        docker.policy.check_create(&Wanted {
            network: Some(&network.name),
            ..Wanted::default()
        })?;
        let name = container.display_name();
        if container
            .network_settings
            .networks
            .contains_key(&network.name)
        {
            return Ok(Done::new(name, "connected").with_note("It was connected already."));
        }
        let body = json!({
            "Container": container.id,
            "EndpointConfig": {"Aliases": self.aliases},
        });
        let path = Path::to("/networks").id(&self.network).then("/connect");
        match docker
            .engine
            .change(Method::POST, path, Body::json(&body))
            .await
        {
            Ok(_) => Ok(Done::new(name, "connected").with_note(format!("to `{}`", network.name))),
            Err(failure) => {
                let asked = Asked::Change("connect", name);
                Err(networks::explain(docker, failure, &self.network, asked).await)
            }
        }
    }
}
