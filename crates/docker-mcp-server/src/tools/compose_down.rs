//! `compose_down`.

use std::collections::BTreeSet;

use super::compose_project::{of_running, told};
use super::deadline::Deadline;
use super::prelude::*;
use crate::compose::{self, NETWORK, PROJECT, VOLUME};

/// Stop and remove the containers and networks of a compose project, as `docker compose down` does. Needs
/// the compose program.
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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct DownReport {
    project: String,
    removed_containers: BTreeSet<String>,
    removed_networks: BTreeSet<String>,
    removed_volumes: BTreeSet<String>,
    /// Why something stayed, as compose said it.
    failed: Option<String>,
}

/// The containers, networks and volumes of a project.
type Objects = [BTreeSet<String>; 3];

impl Tool for ComposeDown {
    const NAME: &'static str = "compose_down";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = DownReport;

    async fn call(self, docker: &Docker, call: &Call) -> Result<DownReport, ToolError> {
        docker.policy.permit_destructive()?;
        compose::project(docker, &self.project).await?;
        let before = self.objects(docker).await?;
        let mut arguments = vec!["down"];
        arguments.extend(self.volumes.then_some("--volumes"));
        let dry = [&arguments[..], &["--dry-run"]].concat();
        let deadline = Deadline::new(call, None);
        let lost = of_running(docker, call, &deadline, &self.project, &dry).await?;
        let loss = self.loss(&lost.text);
        let target = self.project.as_str();
        docker.confirm(call, &loss, target, &self.confirm).await?;
        // The user may have taken minutes.
        self.objects(docker).await?;
        let deadline = Deadline::new(call, None);
        let done = of_running(docker, call, &deadline, &self.project, &arguments).await?;
        let after = self.objects(docker).await?;
        let mut removed = before
            .iter()
            .zip(&after)
            .map(|(before, after)| before - after);
        let redactor = docker.redactor();
        Ok(DownReport {
            project: self.project.to_string(),
            removed_containers: removed.next().unwrap_or_default(),
            removed_networks: removed.next().unwrap_or_default(),
            removed_volumes: removed.next().unwrap_or_default(),
            failed: (!done.succeeded).then(|| redactor.text(&done.text)),
        })
    }
}

impl ComposeDown {
    /// The objects of the project.
    /// Errors when one of them must not be changed, also one that the rules hide.
    async fn objects(&self, docker: &Docker) -> Result<Objects, ToolError> {
        let containers = compose::mutable(docker, self.project.as_str()).await?;
        let containers = containers.iter().map(|at| at.display_name().to_owned());
        let mut found = [containers.collect(), BTreeSet::new(), BTreeSet::new()];
        let networks = docker.engine.networks().await?.into_iter();
        let networks = networks.map(|at| (1, NETWORK, at.name, at.labels));
        let volumes = docker.engine.volumes().await?.into_iter();
        let volumes = volumes.map(|at| (2, VOLUME, at.name, at.labels));
        for (kind, label, name, labels) in networks.chain(volumes.filter(|_| self.volumes)) {
            let project = labels.get(PROJECT).map(String::as_str);
            if project == Some(self.project.as_str()) && labels.contains_key(label) {
                docker.permit_object(&name, &labels)?;
                docker.policy.permit_change(&name, &labels)?;
                found[kind].insert(name);
            }
        }
        Ok(found)
    }

    /// The sentence about what a dry run says.
    fn loss(&self, dry_run: &str) -> String {
        let mut lost: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (kind, name, _) in dry_run.lines().filter_map(told) {
            lost.entry(kind).or_default().insert(name);
        }
        let names = |kind: &str| {
            let names = lost.get(kind).into_iter().flatten().copied();
            names.collect::<Vec<_>>().join(", ")
        };
        let containers = lost.get("Container").map_or(0, BTreeSet::len);
        let data = match self.volumes {
            true => format!(
                " All data in its volumes is permanently lost, also of those without a name: {}",
                names("Volume")
            ),
            false => {
                " Its volumes stay; those without a name are not found by a later call.".to_owned()
            }
        };
        format!(
            "Stops and removes {containers} containers of `{}`, with their logs and the files they wrote: \
             {}.{data}",
            self.project,
            names("Container"),
        )
    }
}
