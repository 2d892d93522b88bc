//! `pull_image`.

use super::deadline::{Deadline, Seconds};
use super::prelude::*;
use super::transfer::Transfer;

/// Get an image from its registry, with progress.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PullImage {
    /// `name:tag`; default tag: latest.
    image: ImageName,
    /// `linux/arm64`; default: the engine's.
    platform: Option<String>,
    /// Until it is ended; default 600.
    timeout_seconds: Option<Seconds>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Pulled {
    image: String,
    id: String,
    size_bytes: i64,
    /// False if it was here already, and is the newest.
    new: bool,
}

impl Tool for PullImage {
    const NAME: &'static str = "pull_image";
    const EFFECT: Effect = Effect::Idempotent;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Pulled;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Pulled, ToolError> {
        let deadline = Deadline::new(call, self.timeout_seconds);
        let platform = self.platform.as_deref();
        let new = pull(docker, call, &deadline, &self.image, platform).await?;
        let details = docker.image(&self.image).await?;
        Ok(Pulled {
            image: self.image.to_string(),
            id: short_id(&details.id).to_owned(),
            size_bytes: details.size,
            new,
        })
    }
}

/// Pulls an image; returns whether there was a newer one.
/// Errors when the policy does not allow it, or the registry refuses.
pub(super) async fn pull(
    docker: &Docker,
    call: &Call,
    deadline: &Deadline,
    image: &ImageName,
    platform: Option<&str>,
) -> Result<bool, ToolError> {
    if let Some(old) = docker.try_image(image).await? {
        let labels = &old.config.labels;
        docker.policy.permit_pull(image.as_str(), labels)?;
    }
    let transfer = Transfer::new(docker, "pulled", image).await?;
    let lines = docker.engine.pull(image, platform, &transfer.login);
    let status = transfer.run(docker, call, deadline, lines).await?;
    Ok(status.contains("Downloaded newer image"))
}
