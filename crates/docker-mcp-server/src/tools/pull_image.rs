//! `pull_image`.

use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;

use tokio::time::Instant;

use super::build_image::DEFAULT_SECONDS;
use super::prelude::*;
use super::pull_progress::Layers;
use crate::engine::EngineError;

/// Longest message of the engine that an error repeats, in characters.
const MAX_MESSAGE: usize = 300;

/// Get an image from its registry, with progress.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PullImage {
    /// `name:tag`; default tag: latest.
    image: ImageName,
    /// `linux/arm64`; default: the engine's.
    platform: Option<String>,
    /// Until it is ended; default 600.
    timeout_seconds: Option<Bounded<1, 3600>>,
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
        if let Some(old) = docker.try_image(&self.image).await? {
            let labels = &old.config.labels;
            docker.policy.permit_pull(self.image.as_str(), labels)?;
        }
        let (name, tag) = self.image.split();
        let mut options = CreateImageOptionsBuilder::new().from_image(name).tag(tag);
        if let Some(platform) = &self.platform {
            options = options.platform(platform);
        }
        let streams = &docker.engine.streams;
        let mut lines = streams.create_image(Some(options.build()), None, None);
        let (mut layers, mut new) = (Layers::default(), false);
        let seconds = self.timeout_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let limit = Duration::from_secs(seconds.into());
        call.extend_timeout(limit);
        let until = Instant::now() + limit;
        loop {
            let line = tokio::select! {
                biased;
                // The engine stops with the connection.
                () = call.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep_until(until) => {
                    return Err(ToolError::new(ToolErrorKind::Timeout, format!(
                        "The pull did not end within {seconds} s and was ended. The layers that \
                         are complete are kept: call again, or with a longer timeout_seconds."
                    )));
                }
                line = lines.next() => line,
            };
            let Some(line) = line else { break };
            let line = line.map_err(|error| self.explain(docker, error))?;
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
    fn explain(&self, docker: &Docker, error: Error) -> ToolError {
        if let Error::DockerStreamError { error } = &error {
            return self.refused(docker, error);
        }
        match error.into() {
            EngineError::Refused { message, .. } if !message.is_empty() => {
                self.refused(docker, &message)
            }
            failure => docker.engine.explain(failure),
        }
    }

    /// The error of the registry, with the engine's message and advice.
    fn refused(&self, docker: &Docker, message: &str) -> ToolError {
        let lower = message.to_lowercase();
        let has = |text: &str| lower.contains(text);
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
        let message = docker.redactor().text(message);
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        let text = format!("`{}` cannot be pulled: {message}. {next}", self.image);
        ToolError::new(kind, text.trim_end().to_owned())
    }
}
