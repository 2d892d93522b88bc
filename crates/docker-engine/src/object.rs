//! Models of the engine's images, networks and volumes. Every member may be missing or null; names and
//! meanings are those of the Docker Engine API.

#![expect(missing_docs, reason = "the Docker Engine API documents the members")]

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::Engine;
use crate::path::Path;

/// An image of the list (`GET /images/json`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ImageSummary {
    pub id: String,
    pub repo_tags: Vec<String>,
    pub created: i64,
    pub size: i64,
    pub labels: BTreeMap<String, String>,
}

/// One image (`GET /images/{name}/json`).
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ImageDetails {
    pub id: String,
    pub repo_tags: Vec<String>,
    pub repo_digests: Vec<String>,
    pub created: String,
    pub size: i64,
    pub os: String,
    pub architecture: String,
    pub config: ImageConfig,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ImageConfig {
    pub user: String,
    pub working_dir: String,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    pub env: Vec<String>,
    pub exposed_ports: BTreeMap<String, Value>,
    pub volumes: BTreeMap<String, Value>,
    pub labels: BTreeMap<String, String>,
    pub healthcheck: Option<Value>,
    /// Instructions that a build from it runs.
    pub on_build: Vec<String>,
}

/// A network (`GET /networks`, `GET /networks/{id}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Network {
    pub id: String,
    pub name: String,
    pub driver: String,
    pub scope: String,
    pub internal: bool,
    pub created: String,
    #[serde(rename = "IPAM")]
    pub ipam: Ipam,
    pub labels: BTreeMap<String, String>,
    /// By id; empty in a list of networks.
    pub containers: BTreeMap<String, AttachedContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Ipam {
    pub config: Vec<Subnet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Subnet {
    pub subnet: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttachedContainer {
    #[serde(rename = "Name")]
    pub name: String,
    #[serde(rename = "IPv4Address")]
    pub ip_address: String,
}

/// A volume (`GET /volumes`, `GET /volumes/{name}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Volume {
    pub name: String,
    pub driver: String,
    pub mountpoint: String,
    pub created_at: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct VolumeList {
    volumes: Vec<Volume>,
}

impl Engine {
    /// The images.
    pub async fn images(&self) -> Result<Vec<ImageSummary>, ToolError> {
        self.get(Path::to("/images/json")).await
    }

    /// The networks, without their containers.
    pub async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        self.get(Path::to("/networks")).await
    }

    /// The volumes.
    pub async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        let list: VolumeList = self.get(Path::to("/volumes")).await?;
        Ok(list.volumes)
    }
}

impl ImageSummary {
    /// Its names, without the placeholder of some engines for an image without a name.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.repo_tags.iter().map(String::as_str);
        tags.filter(|tag| *tag != "<none>:<none>")
    }
}
