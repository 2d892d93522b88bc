//! Images, networks and volumes, as far as the policy lets a caller see and change them.

use std::collections::{BTreeMap, BTreeSet};

use mcp_core::tool::ToolError;
use serde::de::DeserializeOwned;

use super::Docker;
use crate::engine::{
    ContainerDetails, ContainerName, EngineError, Event, ImageDetails, ImageName, ImageSummary,
    Network, ObjectKind, ObjectName, Path, Volume, is_anonymous,
};
use crate::policy::{Subject, forbidden};

/// The name that is shown of an object which the rules hide.
pub(crate) const HIDDEN: &str = "(hidden by the rules)";

impl Docker {
    /// The images.
    pub(crate) async fn images(&self) -> Result<Vec<ImageSummary>, ToolError> {
        self.engine.images().await
    }

    /// An image.
    /// Errors when it does not exist.
    pub(crate) async fn image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let path = Path::to("/images").id(name).then("/json");
        let image = (ObjectKind::Image, name.as_str());
        self.get_object(image, path).await
    }

    /// An image; `None` if it does not exist here.
    pub(crate) async fn try_image(
        &self,
        name: &ImageName,
    ) -> Result<Option<ImageDetails>, ToolError> {
        self.existing(Path::to("/images").id(name).then("/json"))
            .await
    }

    /// An image that may be removed.
    /// Errors when it does not exist, or the policy protects it.
    pub(crate) async fn mutable_image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let details = self.image(name).await?;
        let labels = &details.config.labels;
        self.policy.permit_change(name.as_str(), labels)?;
        Ok(details)
    }

    /// The visible networks.
    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        let mut networks = self.engine.networks().await?;
        networks.retain(|at| self.policy.permits(&Subject::new(&at.name, &at.labels)));
        networks.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        Ok(networks)
    }

    /// A visible network.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn network(&self, name: &ObjectName) -> Result<Network, ToolError> {
        let path = Path::to("/networks").id(name);
        let network = (ObjectKind::Network, name.as_str());
        let network: Network = self.get_object(network, path).await?;
        let subject = Subject::new(&network.name, &network.labels);
        self.policy.permit_as(name.as_str(), &subject)?;
        Ok(network)
    }

    /// A visible volume; `None` if it does not exist.
    /// Errors when the policy hides it, or would.
    pub(crate) async fn try_volume(&self, name: &ObjectName) -> Result<Option<Volume>, ToolError> {
        let found: Option<Volume> = self.existing(Path::to("/volumes").id(name)).await?;
        match &found {
            Some(volume) => self.permit_volume(volume).await?,
            None => self.permit_object(name.as_str(), &BTreeMap::new())?,
        }
        Ok(found)
    }

    /// Refuses a volume that the policy hides. One without a name belongs to its containers.
    async fn permit_volume(&self, volume: &Volume) -> Result<(), ToolError> {
        self.permit_object(&volume.name, &volume.labels)?;
        if is_anonymous(&volume.name) && self.policy.has_rules() {
            let users = self.volume_usage().await?;
            let mut users = users.get(&volume.name).into_iter().flatten();
            if users.any(|user| user == HIDDEN) {
                return Err(self.policy.refusal(&volume.name));
            }
        }
        Ok(())
    }

    /// Refuses a container that mounts a volume which a rule denies or, to change it, one which this
    /// server did not create and may therefore not write to.
    pub(super) async fn permit_volumes_of(
        &self,
        container: &ContainerDetails,
        to_change: bool,
    ) -> Result<(), ToolError> {
        if !to_change && !self.policy.has_rules() {
            return Ok(());
        }
        for mount in &container.mounts {
            if mount.is_anonymous() || mount.kind != "volume" {
                continue;
            }
            let Ok(name) = ObjectName::new(&mount.name) else {
                continue;
            };
            let found: Option<Volume> = self.existing(Path::to("/volumes").id(&name)).await?;
            let labels = found.unwrap_or_default().labels;
            let volume = Subject::new(&mount.name, &labels);
            if self.policy.permit_use(&volume).is_err() {
                return Err(forbidden(format!(
                    "`{}` mounts a volume that is not accessible through this server: its rules \
                     (--allow, --deny) exclude it.",
                    container.display_name()
                )));
            }
            if to_change && mount.writable {
                self.policy.permit_write(&mount.name, &labels)?;
            }
        }
        Ok(())
    }

    /// A visible container whose files may be read, which include those of its volumes.
    /// Errors when a rule hides it, or denies one of its volumes.
    pub(crate) async fn readable_container(
        &self,
        name: &ContainerName,
    ) -> Result<ContainerDetails, ToolError> {
        let details = self.container(name).await?;
        self.permit_volumes_of(&details, false).await?;
        Ok(details)
    }

    /// The object at `path`; `None` if there is none.
    async fn existing<T: DeserializeOwned>(&self, path: Path) -> Result<Option<T>, ToolError> {
        match self.engine.try_get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(EngineError::Refused { status: 404, .. }) => Ok(None),
            Err(failure) => Err(self.engine.explain(failure)),
        }
    }

    /// Whether there is a network of this name, also a hidden one.
    pub(crate) async fn has_network(&self, name: &ObjectName) -> Result<bool, ToolError> {
        let found = self.existing::<Network>(Path::to("/networks").id(name));
        Ok(found.await?.is_some())
    }

    /// The visible volumes.
    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        let mut volumes = self.engine.volumes().await?;
        volumes.retain(|at| self.policy.permits(&Subject::new(&at.name, &at.labels)));
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// A visible volume.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn volume(&self, name: &ObjectName) -> Result<Volume, ToolError> {
        let path = Path::to("/volumes").id(name);
        let volume = (ObjectKind::Volume, name.as_str());
        let volume: Volume = self.get_object(volume, path).await?;
        self.permit_volume(&volume).await?;
        Ok(volume)
    }

    /// The names of networks and volumes that a rule denies, which a visible container may use.
    pub(crate) async fn denied_names(&self) -> Result<BTreeSet<String>, ToolError> {
        if !self.policy.has_rules() {
            return Ok(BTreeSet::new());
        }
        let networks = self.engine.networks().await?.into_iter();
        let volumes = self.engine.volumes().await?.into_iter();
        let networks = networks.map(|at| (at.name, at.labels));
        let all = networks.chain(volumes.map(|at| (at.name, at.labels)));
        let denied = all.filter(|(name, labels)| {
            let subject = Subject::new(name, labels);
            self.policy.permit_use(&subject).is_err()
        });
        Ok(denied.map(|(name, _)| name).collect())
    }

    /// Refuses a network or a volume that the policy puts out of bounds, even before it exists.
    pub(crate) fn permit_object(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        self.policy.permit(&Subject::new(name, labels))
    }

    /// Whether an event is visible. The attributes of a container include its labels.
    pub(crate) fn may_see_event(&self, event: &Event) -> bool {
        let (name, labels) = (event.name(), event.attributes());
        event.kind == "image" || self.policy.permits(&Subject::new(name, labels))
    }

    /// The number of containers of each image, by its whole id; includes hidden containers.
    pub(crate) async fn image_usage(&self) -> Result<BTreeMap<String, usize>, ToolError> {
        let mut counts = BTreeMap::new();
        for container in self.engine.containers(true).await? {
            *counts.entry(container.image_id).or_default() += 1;
        }
        Ok(counts)
    }

    /// The names of the containers that mount each volume, stopped ones included; [`HIDDEN`] for those
    /// that the rules hide.
    pub(crate) async fn volume_usage(&self) -> Result<BTreeMap<String, Vec<String>>, ToolError> {
        let visible = self.visible_names().await?;
        let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for container in self.engine.containers(true).await? {
            let name = visible.get(&container.id).map_or(HIDDEN, String::as_str);
            for mount in container
                .mounts
                .iter()
                .filter(|mount| !mount.name.is_empty())
            {
                users
                    .entry(mount.name.clone())
                    .or_default()
                    .push(name.to_owned());
            }
        }
        Ok(users)
    }

    /// The names and addresses of the containers in a network; [`HIDDEN`] for those that the rules hide.
    pub(crate) async fn network_users(
        &self,
        network: &Network,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let visible = self.visible_names().await?;
        let users = network.containers.iter().map(|(id, user)| {
            let name = visible.get(id).map_or(HIDDEN, String::as_str);
            (name.to_owned(), user.ip_address.clone())
        });
        Ok(users.collect())
    }

    /// The names of the visible containers, by their ids.
    async fn visible_names(&self) -> Result<BTreeMap<String, String>, ToolError> {
        let visible = self.containers(true).await?;
        let names = visible.into_iter().map(|at| {
            let name = at.display_name().to_owned();
            (at.id, name)
        });
        Ok(names.collect())
    }
}
