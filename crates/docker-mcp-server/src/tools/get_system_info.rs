//! `get_system_info`.

use std::time::Duration;

use super::prelude::*;
use crate::engine::Path;

/// How long adding up what is on the disk may take: the engine looks at every file.
const DISK_USAGE_TIMEOUT: Duration = Duration::from_secs(25);

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
pub(super) struct System {
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
    disk: Option<Disk>,
}

#[derive(Serialize, JsonSchema)]
struct Disk {
    images: Share,
    containers: Share,
    volumes: Share,
    build_cache: Share,
}

#[derive(Default, Serialize, JsonSchema)]
struct Share {
    count: usize,
    in_use: usize,
    size_bytes: i64,
    /// What prune would free, at most.
    reclaimable_bytes: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Info {
    server_version: String,
    name: String,
    operating_system: String,
    kernel_version: String,
    architecture: String,
    #[serde(rename = "NCPU")]
    cpus: u32,
    mem_total: u64,
    containers: u64,
    containers_running: u64,
    containers_paused: u64,
    containers_stopped: u64,
    images: u64,
    driver: String,
    cgroup_version: String,
    docker_root_dir: String,
    warnings: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Usage {
    layers_size: i64,
    images: Vec<Used>,
    containers: Vec<Used>,
    volumes: Vec<Used>,
    build_cache: Vec<Used>,
}

/// An image, a container, a volume or a piece of build cache: each has some of these.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Used {
    size: i64,
    shared_size: i64,
    size_rw: i64,
    containers: i64,
    state: String,
    in_use: bool,
    usage_data: VolumeUsage,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct VolumeUsage {
    size: i64,
    ref_count: i64,
}

impl Tool for GetSystemInfo {
    const NAME: &'static str = "get_system_info";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = System;

    async fn call(self, docker: &Docker, _: &Call) -> Result<System, ToolError> {
        let engine = &docker.engine;
        let info: Info = engine.get(Path::to("/info")).await?;
        let version = engine
            .call(|engine| async move { engine.version().await })
            .await?;
        let disk = match self.disk_usage {
            true => {
                let usage = engine.get_within(DISK_USAGE_TIMEOUT, Path::to("/system/df"));
                Some(Disk::new(&usage.await?))
            }
            false => None,
        };
        let redactor = docker.redactor();
        let text = |text: &str| redactor.text(text);
        Ok(System {
            engine_version: text(&info.server_version),
            api_version: text(&version.api_version.unwrap_or_default()),
            name: text(&info.name),
            os: text(&info.operating_system),
            kernel: text(&info.kernel_version),
            architecture: text(&info.architecture),
            cpus: info.cpus,
            memory_bytes: info.mem_total,
            containers: info.containers,
            running: info.containers_running,
            paused: info.containers_paused,
            stopped: info.containers_stopped,
            images: info.images,
            storage_driver: text(&info.driver),
            cgroup_version: text(&info.cgroup_version),
            root_directory: text(&info.docker_root_dir),
            warnings: info
                .warnings
                .iter()
                .take(20)
                .map(|line| text(line))
                .collect(),
            disk,
        })
    }
}

impl Disk {
    fn new(usage: &Usage) -> Self {
        // A size that the engine did not count is -1.
        let share = |list: &[Used], is_used: fn(&Used) -> bool, size: fn(&Used) -> i64| {
            let sum = |wanted: &dyn Fn(&&Used) -> bool| -> i64 {
                list.iter().filter(wanted).map(|one| size(one).max(0)).sum()
            };
            Share {
                count: list.len(),
                in_use: list.iter().filter(|one| is_used(one)).count(),
                size_bytes: sum(&|_| true),
                reclaimable_bytes: sum(&|one| !is_used(one)),
            }
        };
        let own = |image: &Used| image.size - image.shared_size.max(0);
        let images = share(&usage.images, |image| image.containers > 0, own);
        Self {
            images: Share {
                // Layers that images share are there once.
                size_bytes: usage.layers_size,
                ..images
            },
            containers: share(
                &usage.containers,
                |container| matches!(&*container.state, "running" | "paused" | "restarting"),
                |container| container.size_rw,
            ),
            volumes: share(
                &usage.volumes,
                |volume| volume.usage_data.ref_count > 0,
                |volume| volume.usage_data.size,
            ),
            build_cache: share(&usage.build_cache, |piece| piece.in_use, |piece| piece.size),
        }
    }
}
