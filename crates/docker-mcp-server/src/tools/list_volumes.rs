//! `list_volumes`.

use std::collections::BTreeMap;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fit;
use crate::docker::Docker;
use crate::engine::is_anonymous;
use crate::name::ObjectName;

/// Bytes of rows in an answer, which has them twice.
const MAX_BYTES: usize = 6_500;

/// List volumes with who uses them; or inspect one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListVolumes {
    /// The one to inspect.
    volume: Option<ObjectName>,
    /// Only those that no container uses.
    #[serde(default)]
    unused: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Volumes {
    volumes: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
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
    #[serde(skip_serializing_if = "Option::is_none")]
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
        let mut users = docker.users_of_volumes().await?;
        let mut redactor = docker.redactor();
        let rows = listed.into_iter().filter_map(|volume| {
            let used_by = users.remove(&volume.name).unwrap_or_default();
            if self.unused && !used_by.is_empty() {
                return None;
            }
            let labels = volume.labels.iter().take(20);
            let labels = labels.map(|(key, value)| (key.clone(), redactor.value(key, value)));
            Some(Row {
                labels: labels.collect(),
                driver: redactor.text(&volume.driver),
                used_by: used_by
                    .iter()
                    .take(20)
                    .map(|name| redactor.text(name))
                    .collect(),
                anonymous: is_anonymous(&volume.name),
                created: volume.created_at,
                mountpoint: self.volume.as_ref().map(|_| volume.mountpoint),
                name: volume.name,
            })
        });
        let (volumes, omitted) = fit(rows.collect(), MAX_BYTES);
        Ok(Volumes {
            volumes,
            omitted: (omitted > 0).then_some(omitted),
        })
    }
}
