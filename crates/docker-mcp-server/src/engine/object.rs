//! What we read of images, networks and volumes. As of containers, every member may be missing or
//! null; names and meanings are those of the Docker Engine API.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use super::Engine;
use super::action::Kind;
use super::path::Path;
use crate::name::{ImageName, ObjectName};

/// An image of the list (`GET /images/json`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) repo_tags: Vec<String>,
    pub(crate) created: i64,
    pub(crate) size: i64,
    pub(crate) labels: BTreeMap<String, String>,
}

/// One image (`GET /images/{name}/json`).
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageDetails {
    pub(crate) id: String,
    pub(crate) repo_tags: Vec<String>,
    pub(crate) repo_digests: Vec<String>,
    pub(crate) created: String,
    pub(crate) size: i64,
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) config: ImageConfig,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageConfig {
    pub(crate) user: String,
    pub(crate) working_dir: String,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) exposed_ports: BTreeMap<String, Value>,
    pub(crate) volumes: BTreeMap<String, Value>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) healthcheck: Option<Value>,
}

/// A network (`GET /networks`, `GET /networks/{id}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Network {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) scope: String,
    pub(crate) internal: bool,
    pub(crate) created: String,
    #[serde(rename = "IPAM")]
    pub(crate) ipam: Ipam,
    pub(crate) labels: BTreeMap<String, String>,
    /// By id; only where one network is asked for.
    pub(crate) containers: BTreeMap<String, Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Ipam {
    pub(crate) config: Vec<Range>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Range {
    pub(crate) subnet: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoint {
    #[serde(rename = "Name")]
    pub(crate) name: String,
    #[serde(rename = "IPv4Address")]
    pub(crate) ip_address: String,
}

/// A volume (`GET /volumes`, `GET /volumes/{name}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) mountpoint: String,
    pub(crate) created_at: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Image {
    /// Its names. An image without one has a placeholder on some engines.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.repo_tags.iter().map(String::as_str);
        tags.filter(|tag| *tag != "<none>:<none>")
    }
}

impl Engine {
    /// All images.
    pub(crate) async fn images(&self) -> Result<Vec<Image>, ToolError> {
        self.get(Path::to("/images/json")).await
    }

    /// One image.
    pub(crate) async fn image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let path = Path::to("/images").id(name).then("/json");
        self.get_object((Kind::Image, name.as_str()), path).await
    }

    /// All networks.
    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        self.get(Path::to("/networks")).await
    }

    /// One network.
    pub(crate) async fn network(&self, name: &ObjectName) -> Result<Network, ToolError> {
        let path = Path::to("/networks").id(name);
        self.get_object((Kind::Network, name.as_str()), path).await
    }

    /// All volumes.
    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Volumes {
            volumes: Vec<Volume>,
        }
        let Volumes { volumes } = self.get(Path::to("/volumes")).await?;
        Ok(volumes)
    }

    /// One volume.
    pub(crate) async fn volume(&self, name: &ObjectName) -> Result<Volume, ToolError> {
        let path = Path::to("/volumes").id(name);
        self.get_object((Kind::Volume, name.as_str()), path).await
    }
}
