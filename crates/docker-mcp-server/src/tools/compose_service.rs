//! `compose_service`.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::deadline::Deadline;
use super::prelude::*;
use super::pull_image::pull;
use super::start_container::start;
use super::state_change::{self, StateChange};
use super::stop_container::{grace, stop};
use crate::compose;
use crate::docker::permit_start;

/// The least and the most time for the services that others need to be as these need them, and the
/// interval of looking.
const MIN_WAIT: Duration = Duration::from_secs(60);
const MAX_WAIT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Start, stop or restart the containers of a compose project or service, in the order of `depends_on`,
/// or pull its images. Does not need the compose program.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeService {
    /// Its name.
    project: ObjectName,
    /// Default: all.
    service: Option<String>,
    /// `pull` is for the next compose_up.
    action: ServiceAction,
}

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ServiceAction {
    Start,
    Stop,
    Restart,
    Pull,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct ServiceReport {
    project: String,
    containers: Vec<StateChange>,
    omitted: Option<usize>,
    /// Images of which there was a newer one.
    pulled: Vec<String>,
    /// Errors by container or image.
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
        if matches!(self.action, ServiceAction::Stop | ServiceAction::Restart) {
            docker.policy.permit_destructive()?;
        }
        let service = self.service.as_deref();
        let mut containers = Vec::new();
        for container in compose::service_of(docker, &self.project, service).await? {
            let id = ContainerName::new(&container.id);
            let id = id.map_err(|error| ToolError::upstream(error.to_string()))?;
            // A single protected container blocks the whole call.
            containers.push(match self.action {
                ServiceAction::Pull => docker.container(&id).await?,
                _ => docker.mutable_container(&id).await?,
            });
        }
        let (mut failed, mut pulled, mut changes) = (BTreeMap::new(), Vec::new(), Vec::new());
        if self.action == ServiceAction::Pull {
            let deadline = Deadline::new(call, None);
            let mut images: Vec<_> = containers.iter().map(|at| &*at.config.image).collect();
            images.sort_unstable();
            images.dedup();
            for name in images {
                let done = match ImageName::new(name) {
                    Ok(image) => pull(docker, call, &deadline, &image, None).await,
                    Err(error) => Err(ToolError::invalid_argument(error.to_string())),
                };
                match done {
                    Ok(is_new) => pulled.extend(is_new.then(|| name.to_owned())),
                    Err(error) if error.kind() == ToolErrorKind::Cancelled => return Err(error),
                    Err(error) => _ = failed.insert(name.to_owned(), error.message().to_owned()),
                }
            }
        } else {
            let graces = containers.iter().map(|at| grace::<0, 0>(None, at));
            let longest = Duration::from_secs(graces.max().unwrap_or_default().into());
            if self.action == ServiceAction::Restart {
                permit_restart(docker, &containers).await?;
            }
            let groups = compose::in_order(containers);
            let steps = u32::try_from(groups.len()).unwrap_or(1);
            let all: Vec<_> = groups.iter().flatten().collect();
            let waits = groups.iter().map(|group| longest_wait(group, &all));
            call.extend_timeout(longest * steps + waits.sum::<Duration>());
            let run = run(docker.clone(), self.action, groups);
            (changes, failed) = match self.action {
                // A whole, also if the caller leaves: services would stay stopped.
                ServiceAction::Restart => tokio::spawn(run).await.map_err(|error| {
                    ToolError::upstream("The restart broke off.").caused_by(error)
                })?,
                _ => run.await,
            };
        }
        let (containers, omitted) = fit(changes);
        Ok(ServiceReport {
            project: self.project.to_string(),
            containers,
            omitted,
            pulled,
            failed,
        })
    }
}

/// Refuses to stop containers that could not be started again.
async fn permit_restart(docker: &Docker, all: &[ContainerDetails]) -> Result<(), ToolError> {
    for container in all {
        let name = container.display_name();
        if container.state.is_alive() && container.host_config.auto_remove {
            let text = format!("Stopping `{name}` removes it (`--rm`). Nothing was stopped.");
            return Err(conflict(text));
        }
        let id = container.container_id()?;
        let permitted = permit_start(&docker.engine, &docker.policy, &id).await;
        permitted.map_err(|error| {
            let text = format!("`{name}`: {} Nothing was stopped.", error.message());
            ToolError::new(error.kind(), text)
        })?;
    }
    Ok(())
}

/// Stops and starts the containers, as far as the action does. Returns the changes, and the errors.
async fn run(
    docker: Docker,
    action: ServiceAction,
    groups: Vec<Vec<ContainerDetails>>,
) -> (Vec<StateChange>, BTreeMap<String, String>) {
    let (mut changes, mut failed) = (Vec::new(), BTreeMap::new());
    let mut fail = |container: &ContainerDetails, error: &ToolError| {
        let name = container.display_name().to_owned();
        failed
            .entry(name)
            .or_insert_with(|| error.message().to_owned());
    };
    if action != ServiceAction::Start {
        for group in groups.iter().rev() {
            let results = join_all(group.iter().map(|at| stop_one(&docker, at))).await;
            for (container, result) in group.iter().zip(results) {
                match result {
                    Ok(change) if action == ServiceAction::Stop => changes.push(change),
                    Ok(_) => {}
                    Err(error) => fail(container, &error),
                }
            }
        }
    }
    let all: Vec<&ContainerDetails> = groups.iter().flatten().collect();
    let to_start = match action {
        ServiceAction::Stop => &[],
        _ => &*groups,
    };
    // The containers that cannot be used by others.
    let mut broken: Vec<&ContainerDetails> = Vec::new();
    for group in to_start {
        let deadline = Instant::now() + longest_wait(group, &all);
        let starts = group
            .iter()
            .map(|at| start_one(&docker, at, &all, &broken, deadline));
        let results = join_all(starts).await;
        for (container, result) in group.iter().zip(results) {
            match result {
                Ok(change) => changes.push(change),
                Err(error) => {
                    fail(container, &error);
                    if !is_running(&docker, container).await {
                        broken.push(container);
                    }
                }
            }
        }
    }
    (changes, failed)
}

async fn is_running(docker: &Docker, container: &ContainerDetails) -> bool {
    let Ok(id) = container.container_id() else {
        return false;
    };
    let now = docker.container_now(&id).await.ok().flatten();
    now.is_some_and(|now| now.state.status == "running")
}

/// The time for all that the containers of a group need to be as they need it.
fn longest_wait(group: &[ContainerDetails], all: &[&ContainerDetails]) -> Duration {
    let needs = group.iter().flat_map(compose::needs);
    let waits = needs.flat_map(|(service, condition)| {
        let others = all.iter().filter(move |at| compose::is_of(at, service));
        others.map(move |other| match condition {
            "service_healthy" => {
                let check = other.config.healthcheck.as_ref();
                check.map_or(MIN_WAIT, |check| check.longest_start())
            }
            "service_completed_successfully" => MAX_WAIT,
            _ => MIN_WAIT,
        })
    });
    waits.max().unwrap_or(MIN_WAIT).clamp(MIN_WAIT, MAX_WAIT)
}

async fn stop_one(docker: &Docker, before: &ContainerDetails) -> Result<StateChange, ToolError> {
    if before.state.is_alive() {
        if before.host_config.auto_remove {
            let text = "Stopping it removes it (`--rm`): call stop_container.";
            return Err(conflict(text));
        }
        let (name, grace) = (before.display_name(), grace::<0, 0>(None, before));
        stop(docker, name, &before.container_id()?, grace).await?;
    }
    state_change::since(docker, before).await
}

/// Starts a container once the services that it needs are as they should be.
async fn start_one(
    docker: &Docker,
    before: &ContainerDetails,
    started: &[&ContainerDetails],
    broken: &[&ContainerDetails],
    deadline: Instant,
) -> Result<StateChange, ToolError> {
    for (service, condition) in compose::needs(before) {
        let mut broken = broken.iter();
        if broken.any(|at| compose::is_of(at, service)) {
            let text = format!("It was not started: it needs `{service}`, which failed.");
            return Err(conflict(text));
        }
        for other in started.iter().filter(|at| compose::is_of(at, service)) {
            await_condition(docker, other, condition, deadline).await?;
        }
    }
    let id = before.container_id()?;
    let now = docker.container_now(&id).await?;
    if now.is_some_and(|now| now.state.status == "running") {
        return Ok(StateChange::none(before));
    }
    start(docker, &id, &id).await?;
    state_change::watch_early_exit(docker, before).await
}

/// Waits until a container meets a condition of `depends_on`.
async fn await_condition(
    docker: &Docker,
    container: &ContainerDetails,
    condition: &str,
    deadline: Instant,
) -> Result<(), ToolError> {
    let id = container.container_id()?;
    loop {
        let Some(now) = docker.container_now(&id).await? else {
            return Ok(());
        };
        let (state, has_ended) = (&now.state, !now.state.is_alive());
        let health = state.health.as_ref().map_or("", |health| &*health.status);
        let is_met = match condition {
            "service_healthy" => !has_ended && matches!(health, "healthy" | "" | "none"),
            "service_completed_successfully" => has_ended && state.exit_code == 0,
            _ => true,
        };
        if is_met {
            return Ok(());
        }
        if has_ended || health == "unhealthy" || Instant::now() > deadline {
            let name = container.display_name();
            return Err(conflict(format!(
                "It was not started: it needs `{name}` ({condition}). diagnose_container shows more."
            )));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
