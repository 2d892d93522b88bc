//! `compose_service`.

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::compose_project::of_running;
use super::deadline::Deadline;
use super::prelude::*;
use super::pull_image::pull;
use super::state_change::{self, StateChange};
use crate::compose;
use crate::docker::permit_start;

/// Start, stop or restart the containers of a compose project or service, as `docker compose` does, which it
/// needs for that, or pull its images.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeService {
    /// Its name.
    project: ObjectName,
    /// Default: all.
    service: Option<ObjectName>,
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
    /// Errors by image.
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
        let service = self.service.as_ref().map(ObjectName::as_str);
        let listed = compose::service_of(docker, &self.project, service).await?;
        let mut containers = Vec::new();
        for container in &listed {
            let id = ContainerName::new(&container.id);
            let id = id.map_err(|error| ToolError::upstream(error.to_string()))?;
            containers.push(docker.container(&id).await?);
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
                    Err(error) => Err(ToolError::invalid_argument(error.to_string())),
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
            let work = Work {
                docker: docker.clone(),
                project: self.project.clone(),
                service: self.service.clone(),
            };
            match self.action {
                ServiceAction::Stop => work.run(call, "stop").await?,
                ServiceAction::Start => work.run(call, "start").await?,
                _ => {
                    // As a whole, also if the caller leaves: services would stay stopped.
                    let call = call.clone().with_cancellation(CancellationToken::new());
                    let broken =
                        |error| ToolError::upstream("The restart broke off.").caused_by(error);
                    tokio::spawn(async move { work.restart(&call, binds).await })
                        .await
                        .map_err(broken)??;
                }
            }
            let results = join_all(containers.iter().map(async |before| match self.action {
                ServiceAction::Stop => state_change::since(docker, before).await,
                _ => state_change::watch_early_exit(docker, before).await,
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
            let id = container.container_id()?;
            let permitted = permit_start(&docker.engine, &docker.policy, &id).await;
            let binds = permitted.map_err(|error| {
                let text = format!("`{}`: {}", container.display_name(), error.message());
                ToolError::new(error.kind(), text)
            })?;
            has_binds |= !binds.is_empty();
        }
    }
    Ok(has_binds)
}

/// The work of the compose program.
struct Work {
    docker: Docker,
    project: ObjectName,
    service: Option<ObjectName>,
}

impl Work {
    async fn run(&self, call: &Call, action: &str) -> Result<(), ToolError> {
        let mut arguments = vec![action];
        arguments.extend(self.service.as_ref().map(ObjectName::as_str));
        let deadline = Deadline::new(call, None);
        let done = of_running(&self.docker, call, &deadline, &self.project, &arguments).await?;
        match done.succeeded {
            true => Ok(()),
            false => {
                let text = self.docker.redactor().text(&done.text);
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
    async fn restart(&self, call: &Call, is_checked: bool) -> Result<(), ToolError> {
        if !is_checked {
            return self.run(call, "restart").await;
        }
        self.run(call, "stop").await?;
        permit(&self.docker, &self.project, ServiceAction::Start).await?;
        self.run(call, "start").await
    }
}
