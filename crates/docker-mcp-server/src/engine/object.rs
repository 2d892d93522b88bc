//! Models of the engine's images, networks and volumes. Every member may be missing or null; names and
//! meanings are those of the Docker Engine API.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::client::Engine;
use crate::engine::path::Path;

/// An image of the list (`GET /images/json`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageSummary {
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
    /// Instructions that a build from it runs.
    pub(crate) on_build: Vec<String>,
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
    /// By id; empty in a list of networks.
    pub(crate) containers: BTreeMap<String, AttachedContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Ipam {
    pub(crate) config: Vec<Subnet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Subnet {
    pub(crate) subnet: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AttachedContainer {
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct VolumeList {
    volumes: Vec<Volume>,
}

impl Engine {
    pub(crate) async fn images(&self) -> Result<Vec<ImageSummary>, ToolError> {
        self.get(Path::to("/images/json")).await
    }

    /// The networks, without their containers.
    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        self.get(Path::to("/networks")).await
    }

    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        let list: VolumeList = self.get(Path::to("/volumes")).await?;
        Ok(list.volumes)
    }
}

impl ImageSummary {
    /// Its names, without the placeholder of some engines for an image without a name.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.repo_tags.iter().map(String::as_str);
        tags.filter(|tag| *tag != "<none>:<none>")
    }
}
