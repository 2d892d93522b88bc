//! `list_volumes`.

use super::prelude::*;
use crate::engine::is_anonymous;

/// Labels and users of a volume that are shown.
const MAX_ITEMS: usize = 20;

/// List volumes and their users; or inspect one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListVolumes {
    /// Volume to inspect.
    volume: Option<ObjectName>,
    /// Only those that no container uses.
    #[serde(default)]
    unused: bool,
    /// Rows to skip.
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
                mountpoint: self.volume.as_ref().map(|_| volume.mountpoint),
                name: volume.name,
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
