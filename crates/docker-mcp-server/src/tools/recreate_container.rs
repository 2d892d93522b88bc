//! `recreate_container`.

mod comparison;
mod dependants;
mod kept_name;
mod replacement;
mod request;

pub(super) use kept_name::is_kept;
pub(crate) use replacement::recover;

use serde_json::{Map, Value};

use self::comparison::{Asked, differences};
use self::kept_name::permit_begin;
use self::replacement::{Replacement, describe};
use super::prelude::*;
use super::stop_container::grace;

/// Default of [`RecreateContainer::timeout_seconds`].
const DEFAULT_TIMEOUT: u32 = 60;

/// Replace a container by one with the same options and some changes, such as a newer image. The old
/// one comes back if the new one does not get healthy, or, without health check, does not stay up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecreateContainer {
    /// Name or id.
    container: ContainerName,
    /// Arguments of create_container: env and labels are merged (null removes one), others replaced.
    #[serde(default)]
    changes: Map<String, Value>,
    /// For the new one to get healthy; default 60.
    timeout_seconds: Option<Bounded<1, 600>>,
    /// Its name again, if the user cannot be asked.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Recreated {
    container: String,
    id: String,
    state: String,
    image: String,
    /// `healthy`, if it has a health check.
    health: Option<String>,
    note: Option<String>,
}

impl Tool for RecreateContainer {
    const NAME: &'static str = "recreate_container";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Recreated;

    async fn call(mut self, docker: &Docker, call: &Call) -> Result<Recreated, ToolError> {
        docker.policy.permit_destructive()?;
        let before = docker.mutable_container(&self.container).await?;
        let (id, name) = (before.container_id()?, before.display_name());
        if before.host_config.auto_remove {
            return Err(conflict(format!(
                "`{name}` was created with --rm: the engine removes it when it stops, so it could \
                 not come back. Use create_container."
            )));
        }
        permit_begin(&docker.engine, &before).await?;
        dependants::permit_none(docker, &before).await?;
        let inspect = async || {
            let described = describe(&docker.engine, &id).await;
            described.map_err(|failure| docker.engine.explain(failure))
        };
        let old = inspect().await?;
        let changes = std::mem::take(&mut self.changes);
        let request = request::merge(&old.container, &old.defaults, changes)?;
        let new_image = request.body.image.clone().unwrap_or_default();
        let image = ImageName::new(&new_image);
        let image = image.map_err(|error| ToolError::invalid_argument(error.to_string()))?;
        docker.image(&image).await?;
        docker.permit_container(name, &request.body).await?;
        for (network, _) in &request.networks {
            docker.permit_network(network.as_str()).await?;
        }
        let loss = format!(
            "Replaces `{name}` by a new container of `{new_image}`: it is down for a moment, and loses \
             its log and the files that it wrote outside of volumes."
        );
        docker.confirm(call, &loss, name, &self.confirm).await?;
        // The user may have taken minutes.
        let now = inspect().await?;
        let changed = differences(&old, &now, &Asked::default()).join(", ");
        if !changed.is_empty() {
            return Err(conflict(format!(
                "`{name}` was changed meanwhile ({changed}). Nothing was done: call again."
            )));
        }
        let missing = docker.permit_container(name, &request.body).await?;
        for volume in missing {
            docker.create_volume(&volume, BTreeMap::new()).await?;
        }
        let seconds = self.timeout_seconds.map_or(DEFAULT_TIMEOUT, Bounded::get);
        let was_running = before.state.is_alive();
        let replacement = Replacement {
            docker: docker.clone(),
            old: id,
            name: ContainerName::new(name).unwrap_or(self.container),
            timeout: was_running.then(|| Duration::from_secs(seconds.into())),
        };
        let grace = grace::<0, 0>(None, &before);
        // The way there, and the way back.
        call.extend_timeout(Duration::from_secs((seconds + 2 * grace + 20).into()));
        // It ends as a whole, in one way or the other, also if the caller leaves.
        let run = tokio::spawn(async move { replacement.run(now, request, grace).await });
        let lost = |error| ToolError::upstream("The replacement broke off.").caused_by(error);
        let (after, note) = run.await.map_err(lost)??;
        Ok(Recreated {
            container: after.display_name().to_owned(),
            id: short_id(&after.id).to_owned(),
            state: after.state.status.clone(),
            image: new_image,
            health: after.state.health.map(|health| health.status),
            note,
        })
    }
}
