//! Tools of the engine as a whole: its description, its events, its unused objects.

use upstream::time::Since;

use super::prelude::*;
use super::recreate_container::is_kept;
use crate::engine::{Event, SHOWN_DETAILS, is_anonymous};
use crate::policy::is_created;
use crate::unix_time;

/// The least timeout of disk usage, for which the engine reads the size of every file.
const DISK_USAGE_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_WARNINGS: usize = 20;

/// Describe the engine, its host, and on request what takes up its disk.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSystemInfo {
    /// Also adds up images, containers, volumes and build cache; may take seconds.
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
        let shown = |value: &Value| redactor.text(text(value));
        let word = |member: &str| shown(&info[member]);
        let number = |member: &str| info[member].as_u64().unwrap_or_default();
        let warnings = items(&info["Warnings"]);
        Ok(SystemInfo {
            engine_version: word("ServerVersion"),
            api_version: shown(&version["ApiVersion"]),
            name: word("Name"),
            os: word("OperatingSystem"),
            kernel: word("KernelVersion"),
            architecture: word("Architecture"),
            cpus: number("NCPU").try_into().unwrap_or(u32::MAX),
            memory_bytes: number("MemTotal"),
            containers: number("Containers"),
            running: number("ContainersRunning"),
            paused: number("ContainersPaused"),
            stopped: number("ContainersStopped"),
            images: number("Images"),
            storage_driver: word("Driver"),
            cgroup_version: word("CgroupVersion"),
            root_directory: word("DockerRootDir"),
            warnings: warnings.take(MAX_WARNINGS).map(shown).collect(),
            disk,
        })
    }
}

/// The engine's own report about its disk.
pub(super) async fn disk_usage(engine: &Engine) -> Result<Value, ToolError> {
    let path = Path::to("/system/df");
    let limit = DISK_USAGE_TIMEOUT.max(engine.timeout());
    engine.get_within(limit, path).await
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

/// The period before now without `since`.
const DEFAULT_AGE: Duration = Duration::from_secs(3_600);
const DEFAULT_ROWS: u32 = 100;

/// List events of containers, images, networks and volumes, oldest first, as far back as this server or the engine
/// remembers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListEvents {
    /// Lists those since an age (`10m`) or an RFC 3339 time; default: an hour ago.
    since: Option<Since>,
    /// Lists those before this, in the same form; default: now.
    until: Option<Since>,
    /// Lists only this kind.
    kind: Option<EventKind>,
    /// The object's name contains this.
    name: Option<String>,
    /// Lists the newest so many; default 100, fewer if they are long.
    limit: Option<Bounded<1, 1000>>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum EventKind {
    Container,
    Image,
    Network,
    Volume,
    Daemon,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Events {
    events: Vec<EventRow>,
    /// Older rows that do not fit.
    omitted: Option<usize>,
    note: Option<String>,
    /// All events since then are known; of older ones, some may be missing.
    complete_since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct EventRow {
    time: String,
    /// `container`, `image`, …
    kind: String,
    action: String,
    name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<String, String>,
}

impl Tool for ListEvents {
    const NAME: &'static str = "list_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Events;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Events, ToolError> {
        let since = self.since.unwrap_or(Since::Ago(DEFAULT_AGE));
        let since = unix_time::from_argument(since);
        let until = self.until.map(unix_time::from_argument);
        let kind = self.kind.map(|kind| format!("{kind:?}").to_lowercase());
        let limit = self.limit.map_or(DEFAULT_ROWS, Bounded::get) as usize;
        let (kind, timeout) = (kind.as_deref(), docker.engine.timeout());
        let mut past = docker
            .past_events((since, until), kind, None, timeout)
            .await;
        if let Some(failure) = past.failure {
            return Err(docker.engine.explain(failure));
        }
        past.events.retain(|event| self.wants(event));
        let dropped = past.events.len().saturating_sub(limit);
        let rows = past.events.get(dropped..).unwrap_or_default();
        let redactor = docker.redactor();
        // Newest first, so that the oldest are omitted.
        let rows = rows.iter().rev().map(|event| {
            let details = SHOWN_DETAILS.iter().filter_map(|&key| {
                let value = event.attribute(key)?;
                Some((key.to_owned(), redactor.named(key, value)))
            });
            EventRow {
                time: rfc3339(event.time),
                kind: event.kind.clone(),
                action: redactor.text(&event.action),
                name: redactor.text(event.name()),
                details: details.collect(),
            }
        });
        let (mut events, omitted) = fit(rows.collect());
        events.reverse();
        let omitted = positive(dropped + omitted.unwrap_or(0));
        let oldest = events.first().filter(|_| omitted.is_some());
        Ok(Events {
            note: oldest.map(|at| format!("Pass until: {} for older ones.", at.time)),
            events,
            omitted,
            complete_since: past.complete_since,
        })
    }
}

impl ListEvents {
    fn wants(&self, event: &Event) -> bool {
        let part = self.name.as_deref();
        part.is_none_or(|part| event.name().contains(part))
    }
}

/// Objects that are listed in an answer, and in a question to the user.
const MAX_ITEMS: usize = 100;
const MAX_ITEMS_OF_QUESTION: usize = 20;
const MAX_CONCURRENT_READS: usize = 8;

/// Remove what is not in use; without `apply` only show it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prune {
    /// Takes unused objects, or containers that do not run.
    what: PruneKind,
    /// Includes tagged images or named volumes.
    #[serde(default)]
    all: bool,
    /// Removes them.
    #[serde(default)]
    apply: bool,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PruneKind {
    Containers,
    Images,
    Networks,
    Volumes,
    BuildCache,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Pruned {
    what: PruneKind,
    /// False: nothing was done yet.
    applied: bool,
    items: Vec<String>,
    count: usize,
    size_bytes: Option<i64>,
    /// Errors by object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, String>,
    note: Option<&'static str>,
}

struct Unused {
    name: String,
    object: Object,
    size: i64,
}

impl Unused {
    fn new(name: &str, object: Object) -> Self {
        Self {
            name: name.to_owned(),
            object,
            size: 0,
        }
    }
}

impl Tool for Prune {
    const NAME: &'static str = "prune";
    // Without a confirmation it only shows a preview.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = Pruned;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Pruned, ToolError> {
        if self.apply {
            // Also if there is nothing to remove, so that a refusal does not depend on the state.
            docker.policy.permit_destructive()?;
        }
        // One by one: the engine's own prune ignores the rules, and may remove what was not shown.
        let mut unused = match self.what {
            PruneKind::Containers => containers(docker).await?,
            PruneKind::Images => images(docker, self.all).await?,
            PruneKind::Networks => networks(docker).await?,
            PruneKind::Volumes => volumes(docker, self.all).await?,
            PruneKind::BuildCache => return self.build_cache(docker, call).await,
        };
        // The engine lists volumes in another order each time; the question must stay the same.
        unused.sort_by(|a, b| a.name.cmp(&b.name));
        let (what, count) = (self.what.as_str(), unused.len());
        let size: i64 = unused.iter().map(|one| one.size).sum();
        let names = unused.iter().take(MAX_ITEMS).map(|one| one.name.clone());
        let mut pruned = Pruned {
            items: names.collect(),
            ..self.preview(count, (size > 0).then_some(size))
        };
        if !self.apply || count == 0 {
            pruned.note = (count > 0)
                .then_some("Nothing was done yet: call again with apply: true to remove these.");
            return Ok(pruned);
        }
        let names = pruned.items.iter().take(MAX_ITEMS_OF_QUESTION);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let more = match count - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.join(", ");
        let loss = format!("Permanently removes {count} unused {what}: {names}{more}.");
        let all = unused.iter();
        let all = all.flat_map(|one| [&*one.name, &*one.object.identity]);
        let all: Vec<&str> = all.collect();
        // Each is looked at once more below, so that one that is gone does not keep the others.
        docker
            .confirm_all(call, &loss, what, (&[], &all), &self.confirm)
            .await?;
        for (done, Unused { name, object, .. }) in unused.iter().enumerate() {
            call.progress(done as f64, Some(count as f64), name);
            let action = Action::new("remove", object.kind, name);
            let removed = match docker.is_same(object).await {
                Ok(true) => docker.delete(action, object.path.clone()).await,
                Ok(false) => Err(ToolError::conflict("It is gone, or another one by now.")),
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                let error = error.message().to_owned();
                pruned.failed.insert(name.clone(), error);
                pruned.count -= 1;
                pruned.items.retain(|item| item != name);
            }
        }
        pruned.applied = true;
        Ok(pruned)
    }
}

impl Prune {
    /// Nothing was removed yet.
    fn preview(&self, count: usize, size_bytes: Option<i64>) -> Pruned {
        Pruned {
            what: self.what,
            applied: false,
            items: Vec::new(),
            count,
            size_bytes,
            failed: BTreeMap::new(),
            note: None,
        }
    }

    async fn build_cache(&self, docker: &Docker, call: &Call) -> Result<Pruned, ToolError> {
        if self.apply {
            // It has no labels: the pieces of all are one.
            let what = self.what.as_str();
            docker.policy.permit_change(what, false)?;
        }
        let cache = Share::build_cache(&disk_usage(&docker.engine).await?);
        let count = cache.unused();
        let mut pruned = self.preview(count, Some(cache.reclaimable_bytes));
        if !self.apply || count == 0 {
            return Ok(pruned);
        }
        let loss = format!("Removes {count} pieces of build cache: the next builds take longer.");
        let what = self.what.as_str();
        docker
            .confirm_all(call, &loss, what, (&[], &[]), &self.confirm)
            .await?;
        let path = Path::to("/build/prune").query("all", self.all);
        let action = Action::new("prune", ObjectKind::Image, what);
        docker.post(action, path, None, 0).await?;
        pruned.applied = true;
        Ok(pruned)
    }
}

impl PruneKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::Images => "images",
            Self::Networks => "networks",
            Self::Volumes => "volumes",
            Self::BuildCache => "build_cache",
        }
    }
}

async fn containers(docker: &Docker) -> Result<Vec<Unused>, ToolError> {
    let mut ended = docker.containers(true).await?;
    ended.retain(|container| {
        let is_over = matches!(&*container.state, "created" | "exited" | "dead");
        // The old container of a replacement may have to come back.
        is_over && !is_kept(container)
    });
    let unused = stream::iter(ended).map(async |container| {
        let (name, id) = (container.display_name(), &container.id);
        docker.mutable_container(id).await.ok()?;
        Some(Unused::new(name, Object::container(id)))
    });
    let unused: Vec<_> = unused.buffered(MAX_CONCURRENT_READS).collect().await;
    Ok(unused.into_iter().flatten().collect())
}

async fn images(docker: &Docker, all: bool) -> Result<Vec<Unused>, ToolError> {
    let users = docker.image_usage().await?;
    let listed = docker.engine.images().await?;
    let mut unused = Vec::new();
    for image in listed {
        let in_use = users.contains_key(&image.id);
        let mut names: Vec<&str> = image.tags().collect();
        let may_change = docker.policy.may_change(image.is_built());
        if in_use || (!all && !names.is_empty()) || !may_change {
            continue;
        }
        if names.is_empty() {
            names.push(short_id(&image.id));
        }
        // The engine removes an image together with its last name.
        let mut size = image.size;
        for name in names {
            if let Ok(reference) = ImageName::new(name) {
                let one = Unused::new(name, Object::image(&reference, &image.id));
                unused.push(Unused { size, ..one });
            }
            size = 0;
        }
    }
    Ok(unused)
}

async fn networks(docker: &Docker) -> Result<Vec<Unused>, ToolError> {
    let mut unused = Vec::new();
    for network in docker.networks().await? {
        let is_predefined = matches!(&*network.name, "bridge" | "host" | "none" | "podman");
        if is_predefined || !docker.policy.may_change(is_created(&network.labels)) {
            continue;
        }
        // The list does not contain the connected containers.
        let id = &network.id;
        if let Ok(details) = docker.network(id).await
            && docker.network_users(&details).await?.is_empty()
        {
            unused.push(Unused::new(&network.name, Object::network(id)));
        }
    }
    Ok(unused)
}

async fn volumes(docker: &Docker, all: bool) -> Result<Vec<Unused>, ToolError> {
    let users = docker.volume_usage().await?;
    let listed = docker.volumes().await?;
    let unused = listed.iter().filter(|volume| {
        !users.contains_key(&volume.name)
            && (all || is_anonymous(&volume.name))
            && docker.policy.may_change(is_created(&volume.labels))
    });
    let unused = unused.filter_map(|volume| {
        let name = ObjectName::new(&volume.name).ok()?;
        let object = Object::volume(&name, &volume.created_at);
        Some(Unused::new(&volume.name, object))
    });
    Ok(unused.collect())
}

#[cfg(test)]
mod tests {
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
