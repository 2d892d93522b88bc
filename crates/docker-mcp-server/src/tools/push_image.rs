//! `push_image`.

use super::deadline::{Deadline, Seconds};
use super::prelude::*;
use super::transfer::Transfer;
use crate::engine::registry;

/// Send an image to the registry in its name, with the operator's login.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PushImage {
    /// `registry/path:tag`; tag_image gives it one.
    image: ImageName,
    /// Until it is ended; default 600.
    timeout_seconds: Option<Seconds>,
    /// Its name again, if the user cannot be asked.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Pushed {
    image: String,
    registry: String,
    digest: Option<String>,
}

impl Tool for PushImage {
    const NAME: &'static str = "push_image";
    // It replaces what has this name in the registry, and publishes the image.
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Pushed;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Pushed, ToolError> {
        docker.policy.permit_destructive()?;
        docker.mutable_image(&self.image).await?;
        let (name, tag) = self.image.split();
        let registry = registry::server(&self.image);
        if tag.contains(':') {
            let text = "Give the image by a name with a tag, not by a digest.";
            return Err(ToolError::invalid_argument(text));
        }
        let loss = format!(
            "Sends `{name}:{tag}` to the registry `{registry}`, where it replaces the image of this \
             name for everybody."
        );
        let target = self.image.as_str();
        docker.confirm(call, &loss, target, &self.confirm).await?;
        let deadline = Deadline::new(call, self.timeout_seconds);
        let transfer = Transfer::new(docker, "pushed", &self.image).await?;
        let lines = docker.engine.push(&self.image, &transfer.login);
        // `1: digest: sha256:… size: 527`
        let status = transfer.run(docker, call, &deadline, lines).await?;
        let mut words = status.split(' ');
        let digest = words.find(|word| word.starts_with("sha256:"));
        Ok(Pushed {
            image: format!("{name}:{tag}"),
            registry: registry.to_owned(),
            digest: digest.map(str::to_owned),
        })
    }
}
