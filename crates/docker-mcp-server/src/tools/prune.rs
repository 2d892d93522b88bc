//! `prune`.

use std::collections::BTreeMap;

use bollard::query_parameters::PruneBuildOptionsBuilder;

use super::prelude::*;
use super::remove_container::remove;
use super::remove_image::remove_image;
use super::remove_network::remove_network;
use super::remove_volume::remove_volume;
use super::short_id;
use crate::engine::{Path, is_anonymous};

/// Objects that are listed in an answer.
const MAX_ITEMS: usize = 100;

/// Remove what is not in use; without `apply` only shows what that would be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prune {
    /// What to remove: what no container uses, or containers that do not run.
    what: What,
    /// Images: also those with a name. Volumes: also those with a name.
    #[serde(default)]
    all: bool,
    /// Remove them.
    #[serde(default)]
    apply: bool,
    /// The value of `what` again, to remove where the user cannot be asked.
    confirm: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// Those that have ended or were never started.
    Containers,
    /// Those that no container was made from.
    Images,
    /// Those that no container is in.
    Networks,
    /// Those that no container has.
    Volumes,
    BuildCache,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Pruned {
    what: What,
    /// False: nothing was done yet.
    applied: bool,
    items: Vec<String>,
    count: usize,
    size_bytes: Option<i64>,
    /// What could not be removed, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, String>,
    note: Option<&'static str>,
}

impl Pruned {
    /// So many objects, of which none was removed yet.
    fn new(what: What, count: usize) -> Self {
        Self {
            what,
            applied: false,
            items: Vec::new(),
            count,
            size_bytes: None,
            failed: BTreeMap::new(),
            note: None,
        }
    }
}

/// Something that is not in use.
struct Unused {
    name: String,
    object: Object,
    size: i64,
}

/// Removable objects, by their ids.
enum Object {
    Container(ContainerName),
    Image(ImageName),
    Network(ObjectName),
    Volume(ObjectName),
}

impl Unused {
    async fn remove(&self, docker: &Docker) -> Result<(), ToolError> {
        match &self.object {
            Object::Container(id) => remove(docker, &self.name, id, false, false).await,
            Object::Image(name) => remove_image(docker, name, false).await,
            Object::Network(id) => remove_network(docker, id).await,
            Object::Volume(name) => remove_volume(docker, name).await,
        }
    }
}

impl Tool for Prune {
    const NAME: &'static str = "prune";
    // Without a confirmation it shows what it would remove.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = Pruned;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Pruned, ToolError> {
        if self.apply {
            // Also where there is nothing to remove: what is allowed depends on no state.
            docker.policy.permit_destructive()?;
        }
        if self.what == What::BuildCache {
            return self.build_cache(docker, call).await;
        }
        // One by one: the engine's own prune knows no rules, and may remove what was not shown.
        let unused = match self.what {
            What::Containers => containers(docker).await?,
            What::Images => images(docker, self.all).await?,
            What::Networks => unused_networks(docker).await?,
            _ => unused_volumes(docker, self.all).await?,
        };
        let size: i64 = unused.iter().map(|one| one.size).sum();
        let names = unused.iter().take(MAX_ITEMS).map(|one| one.name.clone());
        let mut pruned = Pruned {
            items: names.collect(),
            size_bytes: (size > 0).then_some(size),
            ..Pruned::new(self.what, unused.len())
        };
        if !self.apply || unused.is_empty() {
            pruned.note =
                (!unused.is_empty()).then_some("Nothing was done: apply: true removes these.");
            return Ok(pruned);
        }
        let names: Vec<&str> = pruned.items.iter().take(20).map(String::as_str).collect();
        let more = match unused.len().saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let loss = format!(
            "Removes {} unused {} for good: {}{more}.",
            unused.len(),
            self.what.as_str(),
            names.join(", ")
        );
        docker
            .confirm(call, &loss, self.what.as_str(), &self.confirm)
            .await?;
        for (done, one) in unused.iter().enumerate() {
            call.progress(done as f64, Some(unused.len() as f64), &one.name);
            if let Err(error) = one.remove(docker).await {
                pruned
                    .failed
                    .insert(one.name.clone(), error.message().to_owned());
                pruned.count -= 1;
                pruned.items.retain(|name| *name != one.name);
            }
        }
        pruned.applied = true;
        Ok(pruned)
    }
}

impl Prune {
    async fn build_cache(&self, docker: &Docker, call: &Call) -> Result<Pruned, ToolError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Usage {
            build_cache: Vec<Piece>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Piece {
            size: i64,
            in_use: bool,
        }
        let usage: Usage = docker.engine.get(Path::to("/system/df")).await?;
        let unused = usage.build_cache.iter().filter(|piece| !piece.in_use);
        let (count, size) = unused.fold((0, 0), |(count, size), piece| {
            (count + 1, size + piece.size)
        });
        let mut pruned = Pruned {
            size_bytes: Some(size),
            ..Pruned::new(self.what, count)
        };
        if !self.apply || count == 0 {
            return Ok(pruned);
        }
        let loss = format!("Removes {count} pieces of build cache: builds take longer once.");
        docker
            .confirm(call, &loss, self.what.as_str(), &self.confirm)
            .await?;
        let options = PruneBuildOptionsBuilder::new().all(self.all).build();
        let action = Action::new("prune", ObjectKind::Image, self.what.as_str());
        docker
            .change(action, |engine| async move {
                engine.prune_build(Some(options)).await
            })
            .await?;
        pruned.applied = true;
        Ok(pruned)
    }
}

impl What {
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
        matches!(&*container.state, "created" | "exited" | "dead") && docker.may_change(container)
    });
    let unused = ended.filter_map(|container| {
        Some(Unused {
            name: container.display_name().to_owned(),
            object: Object::Container(ContainerName::new(&container.id).ok()?),
            size: 0,
        })
    });
    Ok(unused.collect())
}

async fn images(docker: &Docker, all: bool) -> Result<Vec<Unused>, ToolError> {
    let users = docker.image_usage().await?;
    let listed = docker.images().await?;
    let mut unused = Vec::new();
    for image in listed {
        let in_use = users.contains_key(&image.id);
        let tags: Vec<&str> = image.tags().collect();
        if in_use || (!all && !tags.is_empty()) || !docker.policy.may_change(&image.labels) {
            continue;
        }
        // An image goes with its last name.
        let names = match tags.as_slice() {
            [] => vec![short_id(&image.id)],
            tags => tags.to_vec(),
        };
        for (at, name) in names.iter().enumerate() {
            if let Ok(reference) = ImageName::new(name) {
                unused.push(Unused {
                    name: (*name).to_owned(),
                    object: Object::Image(reference),
                    size: if at == 0 { image.size } else { 0 },
                });
            }
        }
    }
    Ok(unused)
}

async fn unused_networks(docker: &Docker) -> Result<Vec<Unused>, ToolError> {
    let mut unused = Vec::new();
    for network in docker.networks().await? {
        let is_the_engines = matches!(&*network.name, "bridge" | "host" | "none" | "podman");
        let Ok(id) = ObjectName::new(&network.id) else {
            continue;
        };
        if is_the_engines || !docker.policy.may_change(&network.labels) {
            continue;
        }
        // Who is connected shows only where one network is asked for.
        let Ok(details) = docker.network(&id).await else {
            continue;
        };
        if details.containers.is_empty() {
            unused.push(Unused {
                name: network.name,
                object: Object::Network(id),
                size: 0,
            });
        }
    }
    Ok(unused)
}

async fn unused_volumes(docker: &Docker, all: bool) -> Result<Vec<Unused>, ToolError> {
    let users = docker.volume_usage().await?;
    let listed = docker.volumes().await?;
    let unused = listed.iter().filter(|volume| {
        !users.contains_key(&volume.name)
            && (all || is_anonymous(&volume.name))
            && docker.policy.may_change(&volume.labels)
    });
    let unused = unused.filter_map(|volume| {
        Some(Unused {
            object: Object::Volume(ObjectName::new(&volume.name).ok()?),
            name: volume.name.clone(),
            size: 0,
        })
    });
    Ok(unused.collect())
}
