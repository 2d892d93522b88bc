//! `remove_network`.

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::done::Done;
use super::networks;
use crate::Docker;
use crate::engine::{Asked, Body, Path};
use crate::name::ObjectName;

/// Remove a network that no container is connected to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveNetwork {
    /// Name or id.
    network: ObjectName,
    /// Its name again, where the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveNetwork {
    const NAME: &'static str = "remove_network";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = Done;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Done, ToolError> {
        let network = networks::take(docker, &self.network).await?;
        if !network.containers.is_empty() {
            let names: Vec<&str> = network.containers.values().map(|at| &*at.name).collect();
            let text = format!(
                "`{}` is in use by {}: disconnect_network takes them out.",
                network.name,
                names.join(", ")
            );
            return Err(ToolError::new(ToolErrorKind::Conflict, text));
        }
        let loss = format!(
            "Removes the network `{}`; nothing is connected to it.",
            network.name
        );
        docker
            .confirm(call, &loss, &network.name, self.confirm.as_deref())
            .await?;
        let path = Path::to("/networks").id(&self.network);
        match docker.engine.change(Method::DELETE, path, Body::None).await {
            Ok(_) => Ok(Done::new(&network.name, "removed")),
            Err(failure) => {
                let asked = Asked::Change("remove", self.network.as_str());
                Err(networks::explain(docker, failure, &self.network, asked).await)
            }
        }
    }
}
