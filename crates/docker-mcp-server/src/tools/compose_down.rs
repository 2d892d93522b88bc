//! `compose_down`.

use futures_util::future::join_all;

use super::prelude::*;
use super::remove_container::remove;
use super::remove_network::remove_network;
use super::remove_volume::remove_volume;
use super::stop_container::{grace, stop};
use crate::compose::{self, NETWORK, PROJECT, VOLUME};

/// Stop and remove the containers and networks of a compose project. Works without the compose
/// program.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeDown {
    /// Its name.
    project: ObjectName,
    /// Also its volumes, with all data.
    #[serde(default)]
    volumes: bool,
    /// The project's name again, if the user cannot be asked.
    confirm: Option<String>,
}

#[derive(Default, Serialize, JsonSchema)]
pub(super) struct DownReport {
    project: String,
    removed_containers: Vec<String>,
    removed_networks: Vec<String>,
    removed_volumes: Vec<String>,
    /// Errors by object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, String>,
}

impl Tool for ComposeDown {
    const NAME: &'static str = "compose_down";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = DownReport;

    async fn call(self, docker: &Docker, call: &Call) -> Result<DownReport, ToolError> {
        docker.policy.permit_destructive()?;
        let mut containers = Vec::new();
        let all = compose::project(docker, &self.project).await?;
        for container in all.iter().filter(|at| !compose::is_one_off(at)) {
            if let Ok(id) = ContainerName::new(&container.id) {
                // A single protected container blocks the whole call.
                containers.push(docker.mutable_container(&id).await?);
            }
        }
        let volumes = match self.volumes {
            true => docker.volumes().await?,
            false => Vec::new(),
        };
        let volumes = self.own(VOLUME, volumes.iter().map(|at| (&at.name, &at.labels)));
        let loss = self.loss(&containers, &volumes);
        let target = self.project.as_str();
        docker.confirm(call, &loss, target, &self.confirm).await?;

        let graces = containers.iter().map(|at| grace::<0, 0>(None, at));
        let longest = Duration::from_secs(graces.max().unwrap_or_default().into());
        let mut failed = BTreeMap::new();
        let mut removed = |name: &str, result: Result<(), ToolError>| match result {
            Ok(()) => Some(name.to_owned()),
            Err(error) => {
                failed.insert(name.to_owned(), error.message().to_owned());
                None
            }
        };
        let mut report = DownReport {
            project: self.project.to_string(),
            ..DownReport::default()
        };
        let groups = compose::in_order(containers);
        call.extend_timeout(longest * u32::try_from(groups.len()).unwrap_or(1));
        let total = groups.len() as f64;
        for (done, group) in groups.iter().rev().enumerate() {
            let ends = group.iter().map(|at| end(docker, at, self.volumes));
            let results = join_all(ends).await;
            let progress = "containers are removed";
            call.progress(done as f64 + 1.0, Some(total + 1.0), progress);
            let results = group.iter().zip(results);
            let names = results.filter_map(|(at, result)| removed(at.display_name(), result));
            report.removed_containers.extend(names);
        }
        let networks = docker.networks().await?;
        for name in self.own(NETWORK, networks.iter().map(|at| (&at.name, &at.labels))) {
            let removed = removed(name.as_str(), remove_network(docker, &name).await);
            report.removed_networks.extend(removed);
        }
        for name in volumes {
            let removed = removed(name.as_str(), remove_volume(docker, &name).await);
            report.removed_volumes.extend(removed);
        }
        Ok(DownReport { failed, ..report })
    }
}

impl ComposeDown {
    fn loss(&self, containers: &[ContainerDetails], volumes: &[ObjectName]) -> String {
        let names: Vec<&str> = containers
            .iter()
            .map(ContainerDetails::display_name)
            .collect();
        let mut lost: Vec<String> = volumes.iter().map(ToString::to_string).collect();
        let unnamed = containers.iter().flat_map(|at| {
            let mounts = at.mounts.iter().filter(|mount| mount.is_anonymous());
            mounts.map(|mount| format!("that of {} in {}", mount.destination, at.display_name()))
        });
        let unnamed: Vec<String> = unnamed.collect();
        let has_unnamed = !unnamed.is_empty();
        lost.extend(unnamed.into_iter().filter(|_| self.volumes));
        let data = match (&*lost, self.volumes) {
            ([_, ..], _) => " All data in its volumes is permanently lost:",
            ([], false) if has_unnamed => {
                " Its volumes stay; those without a name are not found by a later call."
            }
            _ => "",
        };
        let loss = format!(
            "Stops and removes {} containers of `{}`, with their logs and the files they wrote: \
             {}.{data} {}",
            names.len(),
            self.project,
            names.join(", "),
            lost.join(", ")
        );
        loss.trim_end().to_owned()
    }

    /// The names of the objects that compose made for the project, which have this label, too.
    fn own<'a>(
        &self,
        label: &str,
        objects: impl Iterator<Item = (&'a String, &'a BTreeMap<String, String>)>,
    ) -> Vec<ObjectName> {
        let project = Some(self.project.as_str());
        let own = objects.filter(|(_, labels)| {
            labels.get(PROJECT).map(String::as_str) == project && labels.contains_key(label)
        });
        own.filter_map(|(name, _)| ObjectName::new(name).ok())
            .collect()
    }
}

/// Stops a container gracefully, and removes it, with its anonymous `volumes` or without.
async fn end(
    docker: &Docker,
    container: &ContainerDetails,
    volumes: bool,
) -> Result<(), ToolError> {
    let (name, id) = (container.display_name(), container.container_id()?);
    if container.state.is_alive() {
        stop(docker, name, &id, grace::<0, 0>(None, container)).await?;
    }
    match remove(docker, name, &id, true, volumes).await {
        // With `--rm` the engine has already removed it.
        Err(error) if error.kind() == ToolErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
