//! `prune`.

use super::get_system_info::{Share, disk_usage};
use super::prelude::*;
use super::recreate_container::is_kept;
use crate::engine::is_anonymous;

/// Objects that are listed in an answer, and in a question to the user.
const MAX_ITEMS: usize = 100;
const MAX_ITEMS_OF_QUESTION: usize = 20;

/// Remove what is not in use; without `apply` only show it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prune {
    /// Kind to remove: unused objects, or containers that do not run.
    what: PruneKind,
    /// Images: also those with a name. Volumes: also those with a name.
    #[serde(default)]
    all: bool,
    /// Remove them.
    #[serde(default)]
    apply: bool,
    /// The value of `what` again, to remove if the user cannot be asked.
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

/// An unused object.
struct Unused {
    name: String,
    kind: ObjectKind,
    /// The path at which it is removed.
    path: Path,
    size: i64,
}

impl Unused {
    fn new(name: &str, kind: ObjectKind, path: Path) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            path,
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
        let unused = match self.what {
            PruneKind::Containers => containers(docker).await?,
            PruneKind::Images => images(docker, self.all).await?,
            PruneKind::Networks => networks(docker).await?,
            PruneKind::Volumes => volumes(docker, self.all).await?,
            PruneKind::BuildCache => return self.build_cache(docker, call).await,
        };
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
        docker.confirm(call, &loss, what, &self.confirm).await?;
        for (done, one) in unused.iter().enumerate() {
            call.progress(done as f64, Some(count as f64), &one.name);
            let action = Action::new("remove", one.kind, &one.name);
            if let Err(error) = docker.delete(action, one.path.clone()).await {
                let error = error.message().to_owned();
                pruned.failed.insert(one.name.clone(), error);
                pruned.count -= 1;
                pruned.items.retain(|name| *name != one.name);
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
        let cache = Share::build_cache(&disk_usage(&docker.engine).await?);
        let count = cache.unused();
        let mut pruned = self.preview(count, Some(cache.reclaimable_bytes));
        if !self.apply || count == 0 {
            return Ok(pruned);
        }
        let loss = format!("Removes {count} pieces of build cache: the next builds take longer.");
        let what = self.what.as_str();
        docker.confirm(call, &loss, what, &self.confirm).await?;
        let path = Path::to("/build/prune").query("all", self.all);
        let action = Action::new("prune", ObjectKind::Image, what);
        docker.post(action, path).await?;
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
    let listed = docker.containers(true).await?;
    let ended = listed.iter().filter(|container| {
        let is_over = matches!(&*container.state, "created" | "exited" | "dead");
        // The old container of a replacement may have to come back.
        is_over && docker.may_change(container) && !is_kept(container)
    });
    let unused = ended.filter_map(|container| {
        let path = Path::container(&ContainerName::new(&container.id).ok()?, "");
        let name = container.display_name();
        Some(Unused::new(name, ObjectKind::Container, path))
    });
    Ok(unused.collect())
}

async fn images(docker: &Docker, all: bool) -> Result<Vec<Unused>, ToolError> {
    let users = docker.image_usage().await?;
    let listed = docker.images().await?;
    let mut unused = Vec::new();
    for image in listed {
        let in_use = users.contains_key(&image.id);
        let mut names: Vec<&str> = image.tags().collect();
        if in_use || (!all && !names.is_empty()) || !docker.policy.may_change(&image.labels) {
            continue;
        }
        if names.is_empty() {
            names.push(short_id(&image.id));
        }
        // The engine removes an image together with its last name.
        let mut size = image.size;
        for name in names {
            if let Ok(reference) = ImageName::new(name) {
                let path = Path::to("/images").id(&reference);
                let one = Unused::new(name, ObjectKind::Image, path);
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
        if is_predefined || !docker.policy.may_change(&network.labels) {
            continue;
        }
        // The list does not contain the connected containers.
        if let Ok(id) = ObjectName::new(&network.id)
            && let Ok(details) = docker.network(&id).await
            && details.containers.is_empty()
        {
            let path = Path::to("/networks").id(&id);
            unused.push(Unused::new(&network.name, ObjectKind::Network, path));
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
            && docker.policy.may_change(&volume.labels)
    });
    let unused = unused.filter_map(|volume| {
        let path = Path::to("/volumes").id(&ObjectName::new(&volume.name).ok()?);
        Some(Unused::new(&volume.name, ObjectKind::Volume, path))
    });
    Ok(unused.collect())
}
