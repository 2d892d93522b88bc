//! Images, networks and volumes, as far as the policy lets a caller see and change them.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use super::Docker;
use crate::engine::{Event, ImageDetails, ImageSummary, Network, ObjectKind, Path, Volume};
use crate::name::{ImageName, ObjectName};
use crate::policy::Subject;

impl Docker {
    /// The visible images.
    pub(crate) async fn images(&self) -> Result<Vec<ImageSummary>, ToolError> {
        let mut images: Vec<ImageSummary> = self.engine.get(Path::to("/images/json")).await?;
        images.retain(|image| {
            let name = image.tags().next().unwrap_or(&image.id);
            self.policy.permits(&Subject::image(name))
        });
        Ok(images)
    }

    /// A visible image.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        self.permit_image(name)?;
        let path = Path::to("/images").id(name).then("/json");
        let image = (ObjectKind::Image, name.as_str());
        let details: ImageDetails = self.engine.get_object(image, path).await?;
        // An id must not bypass a rule about names.
        for tag in &details.repo_tags {
            self.policy.permit(&Subject::image(tag))?;
        }
        Ok(details)
    }

    /// An image that may be removed.
    /// Errors when it does not exist, or the policy protects it.
    pub(crate) async fn mutable_image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let details = self.image(name).await?;
        let labels = &details.config.labels;
        self.policy.permit_change(name.as_str(), labels)?;
        Ok(details)
    }

    /// Refuses the name of an image that the policy puts out of bounds.
    pub(crate) fn permit_image(&self, name: &ImageName) -> Result<(), ToolError> {
        self.policy.permit(&Subject::image(name.as_str()))
    }

    /// The visible networks.
    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        let mut networks: Vec<Network> = self.engine.get(Path::to("/networks")).await?;
        networks.retain(|at| self.policy.permits(&Subject::object(&at.name, &at.labels)));
        networks.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        Ok(networks)
    }

    /// A visible network.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn network(&self, name: &ObjectName) -> Result<Network, ToolError> {
        let path = Path::to("/networks").id(name);
        let network = (ObjectKind::Network, name.as_str());
        let network: Network = self.engine.get_object(network, path).await?;
        self.permit_object(&network.name, &network.labels)?;
        Ok(network)
    }

    /// The visible volumes.
    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct VolumeList {
            volumes: Vec<Volume>,
        }
        let VolumeList { mut volumes } = self.engine.get(Path::to("/volumes")).await?;
        volumes.retain(|at| self.policy.permits(&Subject::object(&at.name, &at.labels)));
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// A visible volume.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn volume(&self, name: &ObjectName) -> Result<Volume, ToolError> {
        let path = Path::to("/volumes").id(name);
        let volume = (ObjectKind::Volume, name.as_str());
        let volume: Volume = self.engine.get_object(volume, path).await?;
        self.permit_object(&volume.name, &volume.labels)?;
        Ok(volume)
    }

    /// Refuses a network or a volume that the policy puts out of bounds, even before it exists.
    pub(crate) fn permit_object(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        self.policy.permit(&Subject::object(name, labels))
    }

    /// Whether an event is visible. The attributes of a container include its labels.
    pub(crate) fn may_see_event(&self, event: &Event) -> bool {
        let (name, labels) = (event.name(), event.attributes());
        let image = labels.get("image").map_or("", String::as_str);
        self.policy.permits(&match &*event.kind {
            "container" => Subject::container(name, image, labels),
            "image" => Subject::image(name),
            _ => Subject::object(name, labels),
        })
    }

    /// The number of containers of each image, by its whole id; includes hidden containers.
    pub(crate) async fn image_usage(&self) -> Result<BTreeMap<String, usize>, ToolError> {
        let mut counts = BTreeMap::new();
        for container in self.all_containers().await? {
            let image = container["ImageID"].as_str().unwrap_or_default();
            *counts.entry(image.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }

    /// The names of the containers that mount each volume, stopped and hidden ones included.
    pub(crate) async fn volume_usage(&self) -> Result<BTreeMap<String, Vec<String>>, ToolError> {
        let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for container in self.all_containers().await? {
            let name = container["Names"][0].as_str().unwrap_or_default();
            let mounts = container["Mounts"].as_array().into_iter().flatten();
            let volumes = mounts.filter_map(|mount| mount["Name"].as_str());
            for volume in volumes.filter(|volume| !volume.is_empty()) {
                let names = users.entry(volume.to_owned()).or_default();
                names.push(name.trim_start_matches('/').to_owned());
            }
        }
        Ok(users)
    }

    async fn all_containers(&self) -> Result<Vec<Value>, ToolError> {
        let path = Path::to("/containers/json").query("all", true);
        self.engine.get(path).await
    }
}
