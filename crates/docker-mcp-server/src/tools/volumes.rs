//! What the volume tools have in common.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;

use crate::Docker;
use crate::engine::{Asked, Failure, Kind, Path};
use crate::name::ObjectName;
use crate::policy::Subject;

/// A volume (`GET /volumes`, `GET /volumes/{name}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) mountpoint: String,
    pub(super) created_at: String,
    pub(super) labels: BTreeMap<String, String>,
}

impl Volume {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject::Object {
            name: &self.name,
            labels: &self.labels,
        }
    }
}

/// All volumes that the rules leave in sight.
pub(super) async fn list(docker: &Docker) -> Result<Vec<Volume>, ToolError> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Listed {
        volumes: Vec<Volume>,
    }
    let listed = docker.engine.read_json(Path::to("/volumes")).await;
    let Listed { mut volumes } = listed.map_err(|failure| docker.engine.explain(failure))?;
    volumes.retain(|volume| docker.policy.permits(&volume.subject()));
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(volumes)
}

/// One volume that the rules leave in sight.
pub(super) async fn inspect(docker: &Docker, name: &ObjectName) -> Result<Volume, ToolError> {
    let volume = docker.engine.read_json(Path::to("/volumes").id(name)).await;
    let volume: Volume = match volume {
        Ok(volume) => volume,
        Err(failure) => return Err(explain(docker, failure, name, Asked::Read).await),
    };
    docker.permit(&volume.subject())?;
    Ok(volume)
}

/// The names of the containers that mount each volume, stopped ones included.
pub(super) async fn users(docker: &Docker) -> Result<BTreeMap<String, Vec<String>>, ToolError> {
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
    let listed = docker.engine.read_json(path).await;
    let listed: Vec<User> = listed.map_err(|failure| docker.engine.explain(failure))?;
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for user in listed {
        let name = user.names.first().map_or("", String::as_str);
        for mounted in user
            .mounts
            .iter()
            .filter(|mounted| !mounted.name.is_empty())
        {
            let names = users.entry(mounted.name.clone()).or_default();
            names.push(name.trim_start_matches('/').to_owned());
        }
    }
    Ok(users)
}

pub(super) async fn explain(
    docker: &Docker,
    failure: Failure,
    name: &ObjectName,
    asked: Asked<'_>,
) -> ToolError {
    let engine = &docker.engine;
    engine
        .explain_missing(failure, Kind::Volume, name.as_str(), asked)
        .await
}
