//! `get_system_info`.

use serde_json::Value;

use super::prelude::*;
use crate::engine::{Engine, Path};

/// The timeout of disk usage, for which the engine reads the size of every file.
const DISK_USAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// Warnings that are shown.
const MAX_WARNINGS: usize = 20;

/// The engine, its host, and on request what takes up its disk.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSystemInfo {
    /// Also add up images, containers, volumes and build cache; may take seconds.
    #[serde(default)]
    disk_usage: bool,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct SystemInfo {
    engine_version: String,
    api_version: String,
    name: String,
    os: String,
    kernel: String,
    architecture: String,
    cpus: u32,
    memory_bytes: u64,
    containers: u64,
    running: u64,
    paused: u64,
    stopped: u64,
    images: u64,
    storage_driver: String,
    cgroup_version: String,
    root_directory: String,
    warnings: Vec<String>,
    disk: Option<DiskUsage>,
}

#[derive(Default, Serialize, JsonSchema)]
pub(super) struct DiskUsage {
    pub(super) images: Share,
    pub(super) containers: Share,
    pub(super) volumes: Share,
    pub(super) build_cache: Share,
}

#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Share {
    count: usize,
    in_use: usize,
    size_bytes: i64,
    /// Freed by prune at most.
    pub(super) reclaimable_bytes: i64,
}

impl Tool for GetSystemInfo {
    const NAME: &'static str = "get_system_info";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = SystemInfo;

    async fn call(self, docker: &Docker, _: &Call) -> Result<SystemInfo, ToolError> {
        let engine = &docker.engine;
        let info: Value = engine.get(Path::to("/info")).await?;
        let version: Value = engine.get(Path::to("/version")).await?;
        let disk = match self.disk_usage {
            true => Some(DiskUsage::new(&disk_usage(engine).await?)),
            false => None,
        };
        let redactor = docker.redactor();
        let shown = |value: &Value| redactor.text(value.as_str().unwrap_or_default());
        let text = |member: &str| shown(&info[member]);
        let number = |member: &str| info[member].as_u64().unwrap_or_default();
        let warnings = info["Warnings"].as_array().into_iter().flatten();
        Ok(SystemInfo {
            engine_version: text("ServerVersion"),
            api_version: shown(&version["ApiVersion"]),
            name: text("Name"),
            os: text("OperatingSystem"),
            kernel: text("KernelVersion"),
            architecture: text("Architecture"),
            cpus: number("NCPU").try_into().unwrap_or(u32::MAX),
            memory_bytes: number("MemTotal"),
            containers: number("Containers"),
            running: number("ContainersRunning"),
            paused: number("ContainersPaused"),
            stopped: number("ContainersStopped"),
            images: number("Images"),
            storage_driver: text("Driver"),
            cgroup_version: text("CgroupVersion"),
            root_directory: text("DockerRootDir"),
            warnings: warnings.take(MAX_WARNINGS).map(shown).collect(),
            disk,
        })
    }
}

/// The engine's own report about its disk.
pub(super) async fn disk_usage(engine: &Engine) -> Result<Value, ToolError> {
    let path = Path::to("/system/df");
    engine.get_within(DISK_USAGE_TIMEOUT, path).await
}

/// A size or a count; the engine writes -1 for one that it did not determine.
fn size(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default().max(0)
}

fn count(value: &Value) -> usize {
    size(value).try_into().unwrap_or_default()
}

impl Share {
    /// The share of build cache.
    pub(super) fn build_cache(usage: &Value) -> Self {
        if let Some(share) = Self::summed(&usage["BuildCacheUsage"]) {
            return share;
        }
        let is_used = |piece: &Value| piece["InUse"] == true;
        Self::new(&usage["BuildCache"], is_used, |piece| size(&piece["Size"]))
    }

    /// The share that the engine itself has added up, since API 1.52; `None` in an older report, which has lists.
    fn summed(usage: &Value) -> Option<Self> {
        usage.is_object().then(|| Self {
            count: count(&usage["TotalCount"]),
            in_use: count(&usage["ActiveCount"]),
            size_bytes: size(&usage["TotalSize"]),
            reclaimable_bytes: size(&usage["Reclaimable"]),
        })
    }

    pub(super) fn unused(&self) -> usize {
        self.count.saturating_sub(self.in_use)
    }

    fn new(list: &Value, is_used: fn(&Value) -> bool, size: fn(&Value) -> i64) -> Self {
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        let (used, unused): (Vec<_>, Vec<_>) = list.iter().partition(|one| is_used(one));
        let reclaimable_bytes = unused.into_iter().map(size).sum();
        Self {
            count: list.len(),
            in_use: used.len(),
            size_bytes: reclaimable_bytes + used.into_iter().map(size).sum::<i64>(),
            reclaimable_bytes,
        }
    }
}

impl DiskUsage {
    /// Adds up the engine's report.
    pub(super) fn new(usage: &Value) -> Self {
        let own_size = |image: &Value| (size(&image["Size"]) - size(&image["SharedSize"])).max(0);
        let is_used = |image: &Value| size(&image["Containers"]) > 0;
        let is_alive = |container: &Value| {
            let state = container["State"].as_str();
            matches!(state, Some("running" | "paused" | "restarting"))
        };
        let is_mounted = |volume: &Value| size(&volume["UsageData"]["RefCount"]) > 0;
        let volume_size = |volume: &Value| size(&volume["UsageData"]["Size"]);
        let images = || Share {
            // Counts shared layers once.
            size_bytes: size(&usage["LayersSize"]),
            ..Share::new(&usage["Images"], is_used, own_size)
        };
        let containers = || Share::new(&usage["Containers"], is_alive, |at| size(&at["SizeRw"]));
        let volumes = || Share::new(&usage["Volumes"], is_mounted, volume_size);
        // API 1.52 and 1.53 have both shapes, 1.54 only the sums.
        Self {
            images: Share::summed(&usage["ImageUsage"]).unwrap_or_else(images),
            containers: Share::summed(&usage["ContainerUsage"]).unwrap_or_else(containers),
            volumes: Share::summed(&usage["VolumeUsage"]).unwrap_or_else(volumes),
            build_cache: Share::build_cache(usage),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn disk_usage_is_read_in_both_shapes() {
        let lists = json!({
            "LayersSize": 70,
            "Images": [{"Size": 50, "SharedSize": 10, "Containers": 1}, {"Size": 30, "SharedSize": 10, "Containers": 0}],
            "Containers": [{"State": "running", "SizeRw": 5}, {"State": "exited", "SizeRw": 6}],
            "Volumes": [{"UsageData": {"RefCount": 1, "Size": 7}}, {"UsageData": {"RefCount": 0, "Size": 8}}],
            "BuildCache": [{"InUse": true, "Size": 9}, {"InUse": false, "Size": 10}],
        });
        let sum = |size: i64, reclaimable: i64| {
            json!({"TotalCount": 2, "ActiveCount": 1, "TotalSize": size,
            "Reclaimable": reclaimable})
        };
        let sums = json!({
            "ImageUsage": sum(70, 20), "ContainerUsage": sum(11, 6), "VolumeUsage": sum(15, 8),
            "BuildCacheUsage": sum(19, 10),
        });
        let read = |usage: &Value| json!(DiskUsage::new(usage));
        assert_eq!(read(&lists), read(&sums));
        let share = |size: i64, reclaimable: i64| {
            json!({"count": 2, "in_use": 1, "size_bytes": size,
            "reclaimable_bytes": reclaimable})
        };
        let expected = json!({"images": share(70, 20), "containers": share(11, 6), "volumes": share(15, 8),
            "build_cache": share(19, 10)});
        assert_eq!(read(&sums), expected);
    }
}
