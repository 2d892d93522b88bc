//! Images, networks and volumes, as far as the policy lets them be seen and changed.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;

use super::Docker;
use crate::engine::{Event, Image, ImageDetails, Kind, Network, Path, Volume};
use crate::name::{ImageName, ObjectName};
use crate::policy::Subject;

impl Docker {
    /// The images that may be looked at.
    pub(crate) async fn images(&self) -> Result<Vec<Image>, ToolError> {
        let mut images: Vec<Image> = self.engine.get(Path::to("/images/json")).await?;
        images.retain(|image| {
            let name = image.tags().next().unwrap_or(&image.id);
            self.policy.permits(&Subject::Image(name))
        });
        Ok(images)
    }

    /// An image that may be looked at.
    /// Errors when there is none, or the policy hides it.
    pub(crate) async fn image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        self.permit_image(name)?;
        let path = Path::to("/images").id(name).then("/json");
        let image = (Kind::Image, name.as_str());
        let details: ImageDetails = self.engine.get_object(image, path).await?;
        // An id must not be the way around a rule about names.
        for tag in &details.repo_tags {
            self.policy.permit(&Subject::Image(tag))?;
        }
        Ok(details)
    }

    /// An image that may be removed.
    /// Errors when there is none, or the policy protects it.
    pub(crate) async fn mutable_image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let details = self.image(name).await?;
        let labels = &details.config.labels;
        self.policy.permit_change(name.as_str(), labels)?;
        Ok(details)
    }

    /// Refuses the name of an image that the policy puts out of bounds.
    pub(crate) fn permit_image(&self, name: &ImageName) -> Result<(), ToolError> {
        self.policy.permit(&Subject::Image(name.as_str()))
    }

    /// The networks that may be looked at.
    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        let mut networks: Vec<Network> = self.engine.get(Path::to("/networks")).await?;
        networks.retain(|network| self.policy.permits(&Subject::from(network)));
        networks.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        Ok(networks)
    }

    /// A network that may be looked at.
    /// Errors when there is none, or the policy hides it.
    pub(crate) async fn network(&self, name: &ObjectName) -> Result<Network, ToolError> {
        let path = Path::to("/networks").id(name);
        let network = (Kind::Network, name.as_str());
        let network: Network = self.engine.get_object(network, path).await?;
        self.policy.permit(&Subject::from(&network))?;
        Ok(network)
    }

    /// A network that may be removed.
    /// Errors when there is none, or the policy protects it.
    pub(crate) async fn mutable_network(&self, name: &ObjectName) -> Result<Network, ToolError> {
        let network = self.network(name).await?;
        self.policy.permit_change(&network.name, &network.labels)?;
        Ok(network)
    }

    /// The volumes that may be looked at.
    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Volumes {
            volumes: Vec<Volume>,
        }
        let Volumes { mut volumes } = self.engine.get(Path::to("/volumes")).await?;
        volumes.retain(|volume| self.policy.permits(&Subject::from(volume)));
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// A volume that may be looked at.
    /// Errors when there is none, or the policy hides it.
    pub(crate) async fn volume(&self, name: &ObjectName) -> Result<Volume, ToolError> {
        let path = Path::to("/volumes").id(name);
        let volume = (Kind::Volume, name.as_str());
        let volume: Volume = self.engine.get_object(volume, path).await?;
        self.policy.permit(&Subject::from(&volume))?;
        Ok(volume)
    }

    /// A volume that may be removed.
    /// Errors when there is none, or the policy protects it.
    pub(crate) async fn mutable_volume(&self, name: &ObjectName) -> Result<Volume, ToolError> {
        let volume = self.volume(name).await?;
        self.policy.permit_change(&volume.name, &volume.labels)?;
        Ok(volume)
    }

    /// Refuses a network or a volume, yet to be created, that the policy puts out of bounds.
    pub(crate) fn permit_object(
        &self,
        name: &ObjectName,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        let name = name.as_str();
        self.policy.permit(&Subject::Object { name, labels })
    }

    /// Whether an event may be looked at. The attributes of a container are its labels too.
    pub(crate) fn shows(&self, event: &Event) -> bool {
        let (name, labels) = (event.name(), event.attributes());
        self.policy.permits(&match &*event.kind {
            "container" => Subject::Container {
                name,
                image: labels.get("image").map_or("", String::as_str),
                labels,
            },
            "image" => Subject::Image(name),
            _ => Subject::Object { name, labels },
        })
    }

    /// How many containers each image has, by its whole id: also those that may not be looked at.
    pub(crate) async fn users_of_images(&self) -> Result<BTreeMap<String, usize>, ToolError> {
        #[derive(Deserialize)]
        struct User {
            #[serde(rename = "ImageID", default)]
            image: String,
        }
        let path = Path::to("/containers/json").query("all", true);
        let users: Vec<User> = self.engine.get(path).await?;
        let mut counts = BTreeMap::new();
        for user in users {
            *counts.entry(user.image).or_default() += 1;
        }
        Ok(counts)
    }

    /// The names of the containers that mount each volume, stopped ones included; also of those that
    /// may not be looked at.
    pub(crate) async fn users_of_volumes(
        &self,
    ) -> Result<BTreeMap<String, Vec<String>>, ToolError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct User {
            names: Vec<String>,
            mounts: Vec<Mounted>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Mounted {
            name: String,
        }
        let path = Path::to("/containers/json").query("all", true);
        let listed: Vec<User> = self.engine.get(path).await?;
        let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for user in listed {
            let name = user.names.first().map_or("", String::as_str);
            let mounted = user.mounts.into_iter().map(|mount| mount.name);
            for volume in mounted.filter(|volume| !volume.is_empty()) {
                let names = users.entry(volume).or_default();
                names.push(name.trim_start_matches('/').to_owned());
            }
        }
        Ok(users)
    }
}

impl<'a> From<&'a Network> for Subject<'a> {
    fn from(network: &'a Network) -> Self {
        Self::Object {
            name: &network.name,
            labels: &network.labels,
        }
    }
}

impl<'a> From<&'a Volume> for Subject<'a> {
    fn from(volume: &'a Volume) -> Self {
        Self::Object {
            name: &volume.name,
            labels: &volume.labels,
        }
    }
}
