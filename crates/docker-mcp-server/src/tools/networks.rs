//! What the network tools have in common.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;

use crate::Docker;
use crate::engine::{Asked, Failure, Kind, Path};
use crate::name::ObjectName;
use crate::policy::Subject;

/// A network (`GET /networks`, `GET /networks/{id}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Network {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) scope: String,
    pub(super) internal: bool,
    pub(super) created: String,
    #[serde(rename = "IPAM")]
    pub(super) ipam: Ipam,
    pub(super) labels: BTreeMap<String, String>,
    /// By id; only where one network is asked for.
    pub(super) containers: BTreeMap<String, Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Ipam {
    pub(super) config: Vec<Range>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Range {
    pub(super) subnet: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Endpoint {
    #[serde(rename = "Name")]
    pub(super) name: String,
    #[serde(rename = "IPv4Address")]
    pub(super) ip_address: String,
}

impl Network {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject::Object {
            name: &self.name,
            labels: &self.labels,
        }
    }
}

/// One network that the rules leave in sight.
pub(super) async fn inspect(docker: &Docker, name: &ObjectName) -> Result<Network, ToolError> {
    let network = docker
        .engine
        .read_json(Path::to("/networks").id(name))
        .await;
    let network: Network = match network {
        Ok(network) => network,
        Err(failure) => return Err(explain(docker, failure, name, Asked::Read).await),
    };
    docker.permit(&network.subject())?;
    Ok(network)
}

/// One network that may be changed.
pub(super) async fn take(docker: &Docker, name: &ObjectName) -> Result<Network, ToolError> {
    let network = inspect(docker, name).await?;
    docker.created_here(&network.name, &network.labels)?;
    Ok(network)
}

pub(super) async fn explain(
    docker: &Docker,
    failure: Failure,
    name: &ObjectName,
    asked: Asked<'_>,
) -> ToolError {
    let engine = &docker.engine;
    engine
        .explain_missing(failure, Kind::Network, name.as_str(), asked)
        .await
}
