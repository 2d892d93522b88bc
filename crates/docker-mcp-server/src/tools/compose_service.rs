//! Compose projects that run: `list_compose_projects`, `compose_service`.

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::compose_project::{MAX_BYTES, of_running, told};
use super::images::pull;
use super::lifecycle::{self, StateChange};
use super::list_containers::health;
use super::prelude::*;
use crate::cli;
use crate::compose::{self, NETWORK, PROJECT, VOLUME};
use crate::engine::ports_of_summary;
use crate::policy::is_created;

/// Services of a project that are shown beside other projects.
const MAX_SERVICES: usize = 20;

/// List compose projects with state and health of their services.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListComposeProjects {
    /// Shows only this one, with images and ports.
    project: Option<ObjectName>,
    /// Skips so many rows, or services of one project.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Projects {
    projects: Vec<ProjectRow>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ProjectRow {
    project: String,
    running: usize,
    containers: usize,
    unhealthy: usize,
    /// On the host where it was brought up.
    directory: Option<String>,
    config_files: Option<String>,
    services: Vec<ServiceRow>,
    omitted_services: Option<usize>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ServiceRow {
    service: String,
    container: String,
    state: String,
    /// `Up 5 minutes`, `Exited (1) 2 hours ago`.
    status: String,
    image: Option<String>,
    health: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
}

impl Tool for ListComposeProjects {
    const NAME: &'static str = "list_compose_projects";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Projects;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Projects, ToolError> {
        let redactor = docker.redactor();
        let (projects, omitted, note) = match &self.project {
            Some(name) => {
                let containers = compose::project(docker, name).await?;
                let mut row = ProjectRow::new(name.as_str(), &containers, true, &redactor);
                let (services, omitted, note) = page(row.services, self.offset, usize::MAX);
                row.services = services;
                row.omitted_services = omitted;
                (vec![row], None, note)
            }
            None => {
                let projects = compose::projects(docker).await?;
                let rows = projects.iter().map(|(name, containers)| {
                    let mut row = ProjectRow::new(name, containers, false, &redactor);
                    row.omitted_services =
                        positive(row.services.len().saturating_sub(MAX_SERVICES));
                    row.services.truncate(MAX_SERVICES);
                    row
                });
                let (rows, omitted, next) = page(rows, self.offset, usize::MAX);
                let none = "No container has the labels of compose.".to_owned();
                (rows, omitted, next.or(projects.is_empty().then_some(none)))
            }
        };
        Ok(Projects {
            projects,
            omitted,
            note,
        })
    }
}

impl ProjectRow {
    fn new(name: &str, containers: &[ContainerSummary], full: bool, redactor: &Redactor) -> Self {
        let directory = containers
            .first()
            .and_then(|at| at.labels.get(compose::DIRECTORY));
        // Services may have been brought up with further files.
        let mut files: Vec<&str> = Vec::new();
        let all = containers
            .iter()
            .filter_map(|at| at.labels.get(compose::FILES));
        for file in all.flat_map(|these| these.split(',')) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let services = containers.iter().map(|container| ServiceRow {
            service: redactor.text(compose::service(container)),
            container: redactor.text(container.display_name()),
            state: redactor.text(&container.state),
            status: redactor.text(&container.status),
            image: full.then(|| redactor.text(&container.image)),
            health: health(&container.status),
            ports: match full {
                true => ports_of_summary(&container.ports),
                false => Vec::new(),
            },
        });
        let services: Vec<_> = services.collect();
        let count =
            |is_counted: fn(&&ServiceRow) -> bool| services.iter().filter(is_counted).count();
        Self {
            project: redactor.text(name),
            running: count(|service| service.state == "running"),
            containers: containers.len(),
            unhealthy: count(|service| service.health == Some("unhealthy")),
            directory: directory.map(|path| redactor.text(path)),
            config_files: (!files.is_empty()).then(|| redactor.text(&files.join(","))),
            services,
            omitted_services: None,
        }
    }
}

/// Start, stop or restart the containers of a compose project or service, pull its images, or take the project
/// down, which removes its containers and networks.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeService {
    /// Its name.
    project: ObjectName,
    /// Acts on this one only; `down` takes the whole project.
    service: Option<ObjectName>,
    /// `pull` is for the next compose_up.
    action: ServiceAction,
    /// `down` also removes its volumes, with all data.
    #[serde(default)]
    volumes: bool,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ServiceAction {
    Start,
    Stop,
    Restart,
    Pull,
    Down,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct ServiceReport {
    project: String,
    containers: Vec<StateChange>,
    omitted: Option<usize>,
    /// Images of which there was a newer one.
    pulled: Vec<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    removed_containers: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    removed_networks: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    removed_volumes: BTreeSet<String>,
    /// Errors by image, or why something of the project stayed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, String>,
}

impl Tool for ComposeService {
    const NAME: &'static str = "compose_service";
    // Starts and pulls lose nothing.
    const EFFECT: Effect = Effect::PartlyDestructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = ServiceReport;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ServiceReport, ToolError> {
        if self.action == ServiceAction::Down {
            return self.down(docker, call).await;
        }
        if matches!(self.action, ServiceAction::Stop | ServiceAction::Restart) {
            docker.policy.permit_destructive()?;
        }
        let service = self.service.as_ref().map(ObjectName::as_str);
        let listed = compose::service_of(docker, &self.project, service).await?;
        let mut containers = Vec::new();
        for container in &listed {
            containers.push(docker.container(&container.id).await?);
        }
        let (mut failed, mut pulled) = (BTreeMap::new(), Vec::new());
        let mut changes = Vec::new();
        if self.action == ServiceAction::Pull {
            let deadline = Deadline::new(call, None);
            let mut images: Vec<_> = containers.iter().map(|at| &*at.config.image).collect();
            images.sort_unstable();
            images.dedup();
            for name in images {
                let done = match ImageName::new(name) {
                    Ok(image) => pull(docker, call, &deadline, &image, None).await,
                    Err(error) => Err(error),
                };
                match done {
                    Ok(is_new) => pulled.extend(is_new.then(|| name.to_owned())),
                    Err(error) if error.kind() == ToolErrorKind::Cancelled => return Err(error),
                    Err(error) => _ = failed.insert(name.to_owned(), error.message().to_owned()),
                }
            }
        } else {
            // A single protected container blocks the whole call: compose also starts what a service needs.
            let binds = permit(docker, &self.project, self.action).await?;
            match self.action {
                ServiceAction::Stop => self.run(docker, call, "stop").await?,
                ServiceAction::Start => self.run(docker, call, "start").await?,
                _ => {
                    // Services would stay stopped.
                    let call = call.clone().with_cancellation(CancellationToken::new());
                    let (work, docker) = (self.clone(), docker.clone());
                    whole(async move { work.restart(&docker, &call, binds).await }).await?;
                }
            }
            let results = join_all(containers.iter().map(async |before| match self.action {
                ServiceAction::Stop => lifecycle::since(docker, before).await,
                _ => lifecycle::watch_early_exit(docker, before).await,
            }));
            changes = results.await.into_iter().collect::<Result<_, _>>()?;
        }
        let (containers, omitted) = fit(changes);
        Ok(ServiceReport {
            project: self.project.to_string(),
            containers,
            omitted,
            pulled,
            failed,
            ..ServiceReport::default()
        })
    }
}

/// Whether containers of the project mount paths of the host that can be seen from here.
/// Errors when one must not be changed or, unless they are only stopped, started.
async fn permit(
    docker: &Docker,
    project: &ObjectName,
    action: ServiceAction,
) -> Result<bool, ToolError> {
    let mut has_binds = false;
    for container in compose::mutable(docker, project.as_str()).await? {
        if action != ServiceAction::Stop {
            let permitted = docker.permit_start(&container.id).await;
            let binds = permitted.map_err(|error| {
                let text = format!("`{}`: {}", container.display_name(), error.message());
                ToolError::new(error.kind(), text)
            })?;
            has_binds |= !binds.is_empty();
        }
    }
    Ok(has_binds)
}

/// The containers, networks and volumes of a project: by name what no other one of this name has.
type Objects = [BTreeMap<String, String>; 3];

/// Why objects of a project are still there after it was taken down, by their names: compose is silent about what
/// something outside of the project uses.
async fn stayed(docker: &Docker, before: &Objects, after: &Objects) -> BTreeMap<String, String> {
    let mut stayed = BTreeMap::new();
    let kinds = ["container", "network", "volume"].into_iter();
    for (kind, (before, after)) in kinds.zip(before.iter().zip(after)) {
        for name in before.keys().filter(|name| after.contains_key(*name)) {
            // Without the users it is known all the same that it stayed.
            let users = match kind {
                "network" => network_users(docker, name).await,
                "volume" => docker
                    .volume_usage()
                    .await
                    .ok()
                    .and_then(|mut all| all.remove(name)),
                _ => None,
            };
            let cause = users.map_or_else(String::new, |users| {
                format!(", in use by {}", users.join(", "))
            });
            let text =
                format!("The {kind} stayed{cause}. remove_{kind} removes it once nothing uses it.");
            stayed.insert(name.clone(), text);
        }
    }
    stayed
}

async fn network_users(docker: &Docker, name: &str) -> Option<Vec<String>> {
    let name = ObjectName::new(name).ok()?;
    let network = docker.network(&name).await.ok()?;
    let users = docker.network_users(&network).await.ok()?;
    let users: Vec<String> = users.into_iter().map(|(name, _)| name).collect();
    (!users.is_empty()).then_some(users)
}

impl ComposeService {
    /// The work of the compose program.
    async fn run(&self, docker: &Docker, call: &Call, action: &str) -> Result<(), ToolError> {
        let mut arguments = vec![action];
        arguments.extend(self.service.as_ref().map(ObjectName::as_str));
        let deadline = Deadline::new(call, None);
        let done = of_running(docker, call, &deadline, &self.project, &arguments).await?;
        match done.succeeded {
            true => Ok(()),
            false => {
                let text = docker.redactor().text(&done.text);
                Err(ToolError::upstream(format!(
                    "`docker compose {action}` of `{}` failed. list_compose_projects shows the states. It \
                     said:\n{text}",
                    self.project
                )))
            }
        }
    }

    /// Stops and starts it, and checks between the two if it `is_checked`: until containers have ended, something
    /// else may come in the place of what they mount.
    async fn restart(
        &self,
        docker: &Docker,
        call: &Call,
        is_checked: bool,
    ) -> Result<(), ToolError> {
        if !is_checked {
            return self.run(docker, call, "restart").await;
        }
        self.run(docker, call, "stop").await?;
        let start = async {
            permit(docker, &self.project, ServiceAction::Start).await?;
            self.run(docker, call, "start").await
        };
        let started = start.await;
        started.map_err(|error| lifecycle::left_stopped(self.project.as_str(), error))
    }

    /// `docker compose down` of the project.
    async fn down(self, docker: &Docker, call: &Call) -> Result<ServiceReport, ToolError> {
        if self.service.is_some() {
            let text = "service: `down` takes the whole project; `stop` stops a service.";
            return Err(ToolError::invalid_argument(text));
        }
        docker.policy.permit_destructive()?;
        let containers = compose::project(docker, &self.project).await?;
        let mounts = containers.iter().flat_map(|at| &at.mounts);
        let unnamed = mounts.filter(|mount| mount.is_anonymous());
        let unnamed: BTreeSet<&str> = unnamed.map(|mount| &*mount.name).collect();
        let before = self.objects(docker).await?;
        let mut arguments = vec!["down"];
        arguments.extend(self.volumes.then_some("--volumes"));
        let dry = [&arguments[..], &["--dry-run"]].concat();
        let deadline = Deadline::new(call, None);
        let lost = of_running(docker, call, &deadline, &self.project, &dry).await?;
        if !lost.succeeded {
            let what = format!(
                "It is not known what `down` of `{}` would remove",
                self.project
            );
            return Err(cli::failed(&docker.redactor(), &what, &lost, MAX_BYTES));
        }
        let loss = self.loss(&lost.text, &before, &docker.volume_usage().await?);
        let target = self.project.as_str();
        let all = before.iter().flatten();
        let all: Vec<&str> = all
            .flat_map(|(name, identity)| [&**name, &**identity])
            .collect();
        docker
            .confirm_all(call, &loss, target, (&[], &all), &self.confirm)
            .await?;
        // The user may have taken minutes.
        if self.objects(docker).await? != before {
            return Err(ToolError::conflict(format!(
                "The project `{target}` was changed meanwhile. Nothing was done: call again."
            )));
        }
        let deadline = Deadline::new(call, None);
        let done = of_running(docker, call, &deadline, &self.project, &arguments).await?;
        let after = self.objects(docker).await.map_err(|error| {
            let text = format!(
                "`down` of `{target}` was run; what stayed of it is not known. {}",
                error.message()
            );
            ToolError::new(error.kind(), text).caused_by(error)
        })?;
        let mut removed = before.iter().zip(&after).map(|(before, after)| {
            let removed = before.keys().filter(|name| !after.contains_key(*name));
            removed.cloned().collect()
        });
        let mut failed = stayed(docker, &before, &after).await;
        if self.volumes
            && let Ok(users) = docker.volume_usage().await
            && let Ok(all) = docker.volumes().await
        {
            // Compose leaves one that a recreated container has taken over.
            let left = all.into_iter().filter(|volume| {
                unnamed.contains(&*volume.name) && !users.contains_key(&volume.name)
            });
            let text = "The volume without a name stayed. remove_volume removes it.";
            failed.extend(left.map(|volume| (volume.name, text.to_owned())));
        }
        if !done.succeeded {
            let why = docker.redactor().text(&done.text);
            failed.insert(self.project.to_string(), why);
        }
        Ok(ServiceReport {
            project: self.project.to_string(),
            removed_containers: removed.next().unwrap_or_default(),
            removed_networks: removed.next().unwrap_or_default(),
            removed_volumes: removed.next().unwrap_or_default(),
            failed,
            ..ServiceReport::default()
        })
    }

    /// The objects of the project.
    /// Errors when one of them must not be changed, also one that the rules hide.
    async fn objects(&self, docker: &Docker) -> Result<Objects, ToolError> {
        let containers = compose::mutable(docker, self.project.as_str()).await?;
        let containers = containers.iter();
        let containers = containers.map(|at| (at.display_name().to_owned(), at.id.to_string()));
        let mut found = [containers.collect(), BTreeMap::new(), BTreeMap::new()];
        let networks = docker.engine.networks().await?.into_iter();
        let networks = networks.map(|at| (1, NETWORK, at.name, at.id.to_string(), at.labels));
        let volumes = docker.engine.volumes().await?.into_iter();
        let volumes = volumes.map(|at| (2, VOLUME, at.name, at.created_at, at.labels));
        let all = networks.chain(volumes.filter(|_| self.volumes));
        for (kind, label, name, identity, labels) in all {
            let project = labels.get(PROJECT).map(String::as_str);
            if project == Some(self.project.as_str()) && labels.contains_key(label) {
                docker.policy.permit(&name, &labels)?;
                docker.policy.permit_change(&name, is_created(&labels))?;
                found[kind].insert(name, identity);
            }
        }
        Ok(found)
    }

    /// The sentence about what a dry run says, which does not look at the users of the volumes. If it tells none of the
    /// objects that are there, all count.
    fn loss(
        &self,
        dry_run: &str,
        before: &Objects,
        users: &BTreeMap<String, Vec<String>>,
    ) -> String {
        let mut lost: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (kind, name, _) in dry_run.lines().filter_map(told) {
            lost.entry(kind).or_default().insert(name);
        }
        for (kind, objects) in [("Container", &before[0]), ("Volume", &before[2])] {
            let all = || objects.keys().map(String::as_str).collect();
            lost.entry(kind).or_insert_with(all);
        }
        let containers = lost.remove("Container").unwrap_or_default();
        let is_kept = |volume: &&str| {
            let mut users = users.get(*volume).into_iter().flatten();
            users.any(|user| !containers.contains(&**user))
        };
        let volumes = lost.remove("Volume").unwrap_or_default().into_iter();
        let (kept, gone): (Vec<&str>, Vec<&str>) = volumes.partition(is_kept);
        let list = |before: &str, names: &[&str]| match names {
            [] => String::new(),
            names => format!("{before}{}", names.join(", ")),
        };
        let data = match self.volumes {
            true => format!(
                " All data in its volumes is permanently lost, also of those without a name{}{}",
                list(": ", &gone),
                list(". These stay, in use by others: ", &kept)
            ),
            false => {
                " Its volumes stay; those without a name are not found by a later call.".to_owned()
            }
        };
        let names: Vec<&str> = containers.iter().copied().collect();
        format!(
            "Stops and removes {} containers of `{}`, with their logs and the files they wrote: {}.{data}",
            names.len(),
            self.project,
            names.join(", "),
        )
    }
}
