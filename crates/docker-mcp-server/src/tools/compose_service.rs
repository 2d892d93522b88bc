//! `compose_service`.

use futures_util::future::join_all;

use super::deadline::Deadline;
use super::prelude::*;
use super::pull_image::pull;
use super::start_container::start;
use super::state_change::{self, StateChange};
use super::stop_container::{grace, stop};
use crate::compose;

/// Bytes of rows in an answer, which contains them twice.
const MAX_BYTES: usize = 6_500;

/// Start, stop or restart the containers of a compose project or service, or pull its images. Does
/// not need the compose program.
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
            call.extend_timeout(Duration::from_secs(graces.max().unwrap_or_default().into()));
            let all = containers.iter().map(|at| self.action.run(docker, at));
            let results = join_all(all).await;
            for (container, result) in containers.iter().zip(results) {
                match result {
                    Ok(change) => changes.push(change),
                    Err(error) => {
                        let name = container.display_name().to_owned();
                        failed.insert(name, error.message().to_owned());
                    }
                }
            }
        }
        let (containers, omitted) = fit(changes, MAX_BYTES);
        Ok(ServiceReport {
            project: self.project.to_string(),
            containers,
            omitted,
            pulled,
            failed,
        })
    }
}

impl ServiceAction {
    async fn run(
        self,
        docker: &Docker,
        before: &ContainerDetails,
    ) -> Result<StateChange, ToolError> {
        let id = before.container_id()?;
        let name = before.display_name();
        if self != Self::Start && before.state.is_alive() {
            if before.host_config.auto_remove {
                let text = "Stopping it removes it (`--rm`): call stop_container.";
                return Err(conflict(text));
            }
            stop(docker, name, &id, grace::<0, 0>(None, before)).await?;
        }
        if self == Self::Stop {
            return state_change::since(docker, before).await;
        }
        if self == Self::Start && before.state.status == "running" {
            return Ok(StateChange::none(before));
        }
        start(docker, &id, &id).await?;
        state_change::watch_early_exit(docker, before).await
    }
}
