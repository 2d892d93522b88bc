//! `disconnect_network`.

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

/// Take a container out of a network; its connections there break.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DisconnectNetwork {
    /// Name or id.
    network: ObjectName,
    /// Name or id.
    container: ContainerName,
    /// The container's name again, where the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for DisconnectNetwork {
    const NAME: &'static str = "disconnect_network";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = Done;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Done, ToolError> {
        let container = docker.take(&self.container).await?;
        let network = networks::inspect(docker, &self.network).await?;
        let name = container.display_name();
        if !container
            .network_settings
            .networks
            .contains_key(&network.name)
        {
            return Ok(Done::new(name, "disconnected").with_note("It was not connected."));
        }
        let loss = format!(
            "Breaks all connections of `{name}` in the network `{}`.",
            network.name
        );
        docker
            .confirm(call, &loss, name, self.confirm.as_deref())
            .await?;
        let body = json!({"Container": container.id, "Force": false});
        let path = Path::to("/networks").id(&self.network).then("/disconnect");
        match docker
            .engine
            .change(Method::POST, path, Body::json(&body))
            .await
        {
            Ok(_) => Ok(Done::new(name, "disconnected").with_note(loss)),
            Err(failure) => {
                let asked = Asked::Change("disconnect", name);
                Err(networks::explain(docker, failure, &self.network, asked).await)
            }
        }
    }
}
