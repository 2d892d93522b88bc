//! `pull_image`.

use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt as _;

use super::prelude::*;
use super::progress::Layers;
use super::short_id;
use super::wait_container::cancelled;
use crate::engine::EngineError;

/// Get an image from its registry, with progress.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PullImage {
    /// `name:tag`; default tag: latest.
    image: ImageName,
    /// `linux/arm64`; default: the engine's.
    platform: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Pulled {
    image: String,
    id: String,
    size_bytes: i64,
    /// False where it was here already, and is the newest.
    new: bool,
}

impl Tool for PullImage {
    const NAME: &'static str = "pull_image";
    const EFFECT: Effect = Effect::Idempotent;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Pulled;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Pulled, ToolError> {
        docker.permit_image(&self.image)?;
        let (name, tag) = self.image.split();
        let mut options = CreateImageOptionsBuilder::new().from_image(name).tag(tag);
        if let Some(platform) = &self.platform {
            options = options.platform(platform);
        }
        let streams = docker.engine.streams();
        let mut lines = streams.create_image(Some(options.build()), None, None);
        let (mut layers, mut new) = (Layers::default(), false);
        loop {
            let line = tokio::select! {
                biased;
                // The engine stops with the connection.
                () = call.cancelled() => return Err(cancelled()),
                line = lines.next() => line,
            };
            let line = match line {
                None => break,
                Some(Ok(line)) => line,
                Some(Err(Error::DockerStreamError { error })) => {
                    return Err(self.refused(docker, &error));
                }
                Some(Err(error)) => return Err(self.explain(docker, error.into())),
            };
            let status = line.status.as_deref().unwrap_or_default();
            new |= status.contains("Downloaded newer image");
            let (done, total) = layers.advance(&line);
            if total > 0 {
                let text = docker.redactor().text(status);
                call.progress(done as f64, Some(total as f64), &text);
            }
        }
        let details = docker.image(&self.image).await?;
        Ok(Pulled {
            image: self.image.to_string(),
            id: short_id(&details.id).to_owned(),
            size_bytes: details.size,
            new,
        })
    }
}

impl PullImage {
    fn explain(&self, docker: &Docker, failure: EngineError) -> ToolError {
        match failure {
            EngineError::Refused { message, .. } if !message.is_empty() => {
                self.refused(docker, &message)
            }
            failure => docker.engine.explain(failure),
        }
    }

    /// Why there is no image, in the engine's words and with what to do.
    fn refused(&self, docker: &Docker, said: &str) -> ToolError {
        let has = |text: &str| said.to_lowercase().contains(text);
        let (kind, next) = if has("not found") || has("manifest unknown") {
            (ToolErrorKind::NotFound, "Check the name and the tag.")
        } else if has("unauthorized") || has("denied") || has("authentication") {
            let next = "It does not exist, or is private: the engine has no credentials for it.";
            (ToolErrorKind::Unauthorized, next)
        } else if has("no such host") || has("refused") || has("timeout") || has("lookup") {
            let next = "The engine cannot reach the registry.";
            (ToolErrorKind::Unavailable, next)
        } else {
            (ToolErrorKind::Upstream, "")
        };
        let said = docker.redactor().text(said);
        let said: String = said.chars().take(300).collect();
        let text = format!("`{}` cannot be pulled: {said}. {next}", self.image);
        ToolError::new(kind, text.trim_end().to_owned())
    }
}
