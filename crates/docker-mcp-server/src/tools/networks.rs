//! Tools of networks and volumes.

use super::prelude::*;
use crate::engine::{Network, is_anonymous};
use crate::policy::{CREATED, MARK, is_created, permit_marks};

/// List networks; or inspect one, with the containers in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListNetworks {
    /// Inspects this one, by name or id.
    network: Option<ObjectName>,
    /// Skips so many rows, or containers of one network.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Networks {
    networks: Vec<NetworkRow>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct NetworkRow {
    id: String,
    name: String,
    driver: String,
    scope: String,
    subnets: Vec<String>,
    /// Allows no outside access.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    internal: bool,
    created: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Name to address.
    containers: Option<BTreeMap<String, String>>,
}

impl Tool for ListNetworks {
    const NAME: &'static str = "list_networks";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Networks;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Networks, ToolError> {
        let redactor = docker.redactor();
        let row = |network: Network| {
            let ranges = network.ipam.config.into_iter();
            NetworkRow {
                id: short_id(&network.id).to_owned(),
                name: redactor.text(&network.name),
                driver: redactor.text(&network.driver),
                scope: redactor.text(&network.scope),
                subnets: ranges.map(|range| range.subnet).collect(),
                internal: network.internal,
                created: network.created,
                labels: redacted_labels(&network.labels, MAX_ITEMS, &redactor),
                containers: None,
            }
        };
        let (networks, omitted, note) = match &self.network {
            Some(name) => {
                let network = docker.network(name).await?;
                let mut users = docker.network_users(&network).await?;
                users.sort();
                let users = users.iter();
                let users = users.map(|(name, address)| (redactor.text(name), address.clone()));
                let (users, omitted, note) = page(users, self.offset, usize::MAX);
                let mut row = row(network);
                row.containers = Some(users.into_iter().collect());
                (vec![row], omitted, note)
            }
            None => {
                let listed = docker.networks().await?;
                page(listed.into_iter().map(row), self.offset, usize::MAX)
            }
        };
        Ok(Networks {
            networks,
            omitted,
            note,
        })
    }
}

/// Create a bridge network, in which containers find each other by name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateNetwork {
    /// Its name.
    network: ObjectName,
    /// Give one like `172.30.0.0/16`; default: a free one.
    subnet: Option<String>,
    /// Allows no outside access.
    #[serde(default)]
    internal: bool,
    /// Sets labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Tool for CreateNetwork {
    const NAME: &'static str = "create_network";
    const EFFECT: Effect = Effect::Additive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ObjectChange, ToolError> {
        permit_marks("", self.labels.keys())?;
        refuse_hidden(docker, pairs(&self.labels))?;
        docker.policy.permit(self.network.as_str(), &self.labels)?;
        let mut labels = self.labels.clone();
        labels.insert(CREATED.to_owned(), MARK.to_owned());
        let mut body = json!({
            "Name": self.network,
            "CheckDuplicate": true,
            "Driver": "bridge",
            "Internal": self.internal,
            "Labels": labels,
        });
        if let Some(subnet) = &self.subnet {
            docker.permit_subnet(subnet)?;
            body["IPAM"] = json!({"Config": [{"Subnet": subnet}]});
        }
        let path = Path::to("/networks/create");
        match docker
            .engine
            .try_post(path, Some(&body), Duration::ZERO)
            .await
        {
            Ok(_) => Ok(ObjectChange::new(&self.network, "created")),
            Err(EngineError::Refused {
                status: 403 | 409,
                message,
            }) => Err(ToolError::conflict(format!(
                "`{}` cannot be created: {message}.",
                self.network
            ))),
            Err(failure) => {
                let action = Action::new("create", ObjectKind::Network, self.network.as_str());
                Err(docker.explain(failure, action).await)
            }
        }
    }
}

/// Connect a container to a network, or take it out of one, which breaks its connections there.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectNetwork {
    /// Name or id.
    network: ObjectName,
    /// Name or id.
    container: ContainerName,
    /// Gives the container further names in it.
    #[serde(default)]
    aliases: Vec<ContainerName>,
    /// Takes the container out.
    #[serde(default)]
    disconnect: bool,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

impl Tool for ConnectNetwork {
    const NAME: &'static str = "connect_network";
    // Only if it takes the container out.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let container = docker.mutable_container(&self.container).await?;
        let network = docker.network(&self.network).await?;
        if self.disconnect {
            return self.disconnect(docker, call, &container, &network).await;
        }
        docker.permit_network(&network.id).await?;
        let name = container.display_name();
        if container.is_in_network(&network.name) {
            return Ok(ObjectChange::new(name, "connected").with_note("It was connected already."));
        }
        docker.permit_names(&network)?;
        let request = json!({
            "Container": container.id,
            "EndpointConfig": {"Aliases": self.aliases},
        });
        let path = Path::to("/networks").id(&self.network).then("/connect");
        let action = Action::on_container("connect", name)
            .with_required(ObjectKind::Network, self.network.as_str());
        docker.post(action, path, Some(&request), 0).await?;
        Ok(ObjectChange::new(name, "connected").with_note(format!("to `{}`", network.name)))
    }
}

impl ConnectNetwork {
    async fn disconnect(
        self,
        docker: &Docker,
        call: &Call,
        container: &ContainerDetails,
        network: &Network,
    ) -> Result<ObjectChange, ToolError> {
        docker.policy.permit_destructive()?;
        let name = container.display_name();
        if !container.is_in_network(&network.name) {
            return Ok(ObjectChange::new(name, "disconnected").with_note("It was not connected."));
        }
        let loss = format!(
            "Breaks all connections of `{name}` in the network `{}`.",
            network.name
        );
        let objects = [
            Object::container(&container.id),
            Object::network(&network.id),
        ];
        docker
            .confirm(call, &loss, name, &objects, &self.confirm)
            .await?;
        let request = json!({"Container": container.id, "Force": false});
        // By its id: another network may get its name meanwhile.
        let path = Path::to("/networks").id(&network.id).then("/disconnect");
        let action = Action::on_container("disconnect", name)
            .with_required(ObjectKind::Network, self.network.as_str());
        docker.post(action, path, Some(&request), 0).await?;
        Ok(ObjectChange::new(name, "disconnected").with_note(loss))
    }
}

/// Remove a network that no container is connected to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveNetwork {
    /// Name or id.
    network: ObjectName,
    /// Pass the refusal's value once the user agrees.
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
        docker
            .policy
            .permit_change(name, is_created(&network.labels))?;
        if let "bridge" | "host" | "none" = name {
            return Err(ToolError::conflict(format!(
                "`{name}` is a network of the engine itself, which cannot be removed."
            )));
        }
        let users = docker.network_users(&network).await?;
        if !users.is_empty() {
            let users: Vec<String> = users.into_iter().map(|(name, _)| name).collect();
            let users = users.join(", ");
            return Err(ToolError::conflict(format!(
                "`{name}` is in use by {users} (stopped containers count too): connect_network with disconnect \
                 takes them out."
            )));
        }
        let loss = format!("Removes the network `{name}`; nothing is connected to it.");
        // By its id: another network may get its name meanwhile.
        let object = Object::network(&network.id);
        let path = object.path.clone();
        docker
            .confirm(call, &loss, name, &[object], &self.confirm)
            .await?;
        let action = Action::new("remove", ObjectKind::Network, name);
        docker.delete(action, path).await?;
        Ok(ObjectChange::new(name, "removed"))
    }
}

/// Labels, and users of a volume, that are shown.
const MAX_ITEMS: usize = 20;

/// List volumes and their users; or inspect one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListVolumes {
    /// Inspects this volume.
    volume: Option<ObjectName>,
    /// Lists only those that no container uses.
    #[serde(default)]
    unused: bool,
    /// Skips so many rows.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Volumes {
    volumes: Vec<VolumeRow>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct VolumeRow {
    name: String,
    driver: String,
    /// Containers, stopped ones included.
    used_by: Vec<String>,
    /// Made for one container, without a name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    anonymous: bool,
    created: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// On the engine's host.
    mountpoint: Option<String>,
}

impl Tool for ListVolumes {
    const NAME: &'static str = "list_volumes";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Volumes;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Volumes, ToolError> {
        let listed = match &self.volume {
            Some(name) => vec![docker.volume(name).await?],
            None => docker.volumes().await?,
        };
        let mut users = docker.volume_usage().await?;
        let redactor = docker.redactor();
        let rows = listed.into_iter().filter_map(|volume| {
            let used_by = users.remove(&volume.name).unwrap_or_default();
            if self.unused && !used_by.is_empty() {
                return None;
            }
            let used_by = used_by.iter().take(MAX_ITEMS);
            Some(VolumeRow {
                labels: redacted_labels(&volume.labels, MAX_ITEMS, &redactor),
                driver: redactor.text(&volume.driver),
                used_by: used_by.map(|name| redactor.text(name)).collect(),
                anonymous: is_anonymous(&volume.name),
                created: volume.created_at,
                mountpoint: self
                    .volume
                    .as_ref()
                    .map(|_| redactor.text(&volume.mountpoint)),
                name: redactor.text(&volume.name),
            })
        });
        let (volumes, omitted, note) = page(rows, self.offset, usize::MAX);
        Ok(Volumes {
            volumes,
            omitted,
            note,
        })
    }
}

/// Create an empty volume. One that exists stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateVolume {
    /// Its name.
    volume: ObjectName,
    /// Sets labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Tool for CreateVolume {
    const NAME: &'static str = "create_volume";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ObjectChange, ToolError> {
        permit_marks("", self.labels.keys())?;
        refuse_hidden(docker, pairs(&self.labels))?;
        docker.policy.permit(self.volume.as_str(), &self.labels)?;
        if docker.try_volume(&self.volume).await?.is_some() {
            return Ok(ObjectChange::new(&self.volume, "kept").with_note("It existed already."));
        }
        docker.create_volume(&self.volume, self.labels).await?;
        Ok(ObjectChange::new(&self.volume, "created"))
    }
}

/// Remove a volume that no container uses, with all data in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveVolume {
    /// Its name.
    volume: ObjectName,
    /// Pass the refusal's value once the user agrees.
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
        docker
            .policy
            .permit_change(name, is_created(&volume.labels))?;
        if let Some(users) = docker.volume_usage().await?.remove(name) {
            let users = users.join(", ");
            return Err(ToolError::conflict(format!(
                "`{name}` is in use by {users} (stopped containers count too): remove_container removes them."
            )));
        }
        let loss = format!("Removes the volume `{name}`: all data in it is permanently lost.");
        let object = Object::volume(&self.volume, &volume.created_at);
        let path = object.path.clone();
        docker
            .confirm(call, &loss, name, &[object], &self.confirm)
            .await?;
        let action = Action::new("remove", ObjectKind::Volume, name);
        docker.delete(action, path).await?;
        Ok(ObjectChange::new(name, "removed").with_note(loss))
    }
}
