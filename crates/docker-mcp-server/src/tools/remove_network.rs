//! `remove_network`.

use super::prelude::*;

/// Remove a network that no container is connected to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveNetwork {
    /// Name or id.
    network: ObjectName,
    /// Its name again, if the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveNetwork {
    const NAME: &'static str = "remove_network";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let network = docker.network(&self.network).await?;
        let name = network.name.as_str();
        docker.policy.permit_change(name, &network.labels)?;
        if !network.containers.is_empty() {
            let users = docker.network_users(&network).await?;
            let users: Vec<String> = users.into_iter().map(|(name, _)| name).collect();
            let users = users.join(", ");
            return Err(conflict(format!(
                "`{name}` is in use by {users}: disconnect_network takes them out."
            )));
        }
        let loss = format!("Removes the network `{name}`; nothing is connected to it.");
        docker.confirm(call, &loss, name, &self.confirm).await?;
        remove_network(docker, &self.network).await?;
        Ok(ObjectChange::new(name, "removed"))
    }
}

/// Removes a network that no container is connected to.
pub(super) async fn remove_network(docker: &Docker, network: &ObjectName) -> Result<(), ToolError> {
    let action = Action::new("remove", ObjectKind::Network, network.as_str());
    docker
        .delete(action, Path::to("/networks").id(network))
        .await
}
