//! Pulls and pushes of images: progress, and errors of the registry.

use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use futures_util::Stream;

use super::deadline::Deadline;
use super::prelude::*;
use crate::engine::EngineError;
use crate::registry::{self, RegistryLogin};

/// Longest message of the engine that an error repeats, in characters.
const MAX_MESSAGE: usize = 300;

/// A transfer of an image between the engine and its registry.
pub(super) struct Transfer<'a> {
    /// `pulled` or `pushed`.
    done: &'static str,
    image: &'a ImageName,
    pub(super) login: RegistryLogin,
}

impl<'a> Transfer<'a> {
    /// One with the login that the docker configuration has for the registry.
    pub(super) async fn new(
        docker: &Docker,
        done: &'static str,
        image: &'a ImageName,
    ) -> Result<Self, ToolError> {
        let login = docker.registries.login(image).await?;
        Ok(Self { done, image, login })
    }

    /// Reads the engine's `lines` to their end, with progress; returns the last status.
    /// Errors with advice when the registry refuses, or the call is cancelled: the engine stops with the
    /// connection.
    pub(super) async fn run(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        mut lines: impl Stream<Item = Result<CreateImageInfo, Error>> + Unpin,
    ) -> Result<String, ToolError> {
        let (mut layers, mut last) = (Layers::default(), String::new());
        let ended = |seconds| {
            format!(
                "`{}` was not {} within {seconds} s, so that was ended. Complete layers are kept: \
                 call again, or with a longer timeout_seconds.",
                self.image, self.done
            )
        };
        while let Some(line) = deadline.run(call, lines.next(), ended).await? {
            let line = line.map_err(|error| self.explain(docker, error))?;
            let status = line.status.as_deref().unwrap_or_default();
            let (done, total) = layers.advance(&line);
            if total > 0 {
                let text = docker.redactor().text(status);
                call.progress(done as f64, Some(total as f64), &text);
            }
            if !status.is_empty() {
                last = status.to_owned();
            }
        }
        Ok(last)
    }

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
        let is_denied = ["unauthorized", "denied", "authentication", "no basic auth"];
        let (kind, next) = if has("not found") || has("manifest unknown") {
            let next = "Check the name and the tag.".to_owned();
            (ToolErrorKind::NotFound, next)
        } else if is_denied.into_iter().any(has) {
            let registry = registry::server(self.image);
            let next = match &self.login {
                RegistryLogin::Missing => format!(
                    "It does not exist, or is private: the docker configuration of this server has \
                     no login for `{registry}`. The operator can add one with `docker login`."
                ),
                RegistryLogin::Unreadable(reason) => {
                    format!("It does not exist, or is private. {reason}")
                }
                RegistryLogin::Found(_) => {
                    format!("The login of this server for `{registry}` is not enough.")
                }
            };
            (ToolErrorKind::Unauthorized, next)
        } else if has("no such host") || has("refused") || has("timeout") || has("lookup") {
            let next = "The engine cannot reach the registry.".to_owned();
            (ToolErrorKind::Unavailable, next)
        } else {
            (ToolErrorKind::Upstream, String::new())
        };
        let message = docker.redactor().text(message);
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        let text = format!(
            "`{}` cannot be {}: {message}. {next}",
            self.image, self.done
        );
        ToolError::new(kind, text.trim_end().to_owned())
    }
}

/// The downloaded and the total bytes of each layer.
#[derive(Default)]
struct Layers(BTreeMap<String, (u64, u64)>);

impl Layers {
    /// Applies a line of the engine's output. Returns the downloaded and the known total bytes.
    fn advance(&mut self, line: &CreateImageInfo) -> (u64, u64) {
        let bytes = |count: Option<i64>| count.and_then(|bytes| u64::try_from(bytes).ok());
        let detail = line.progress_detail.as_ref();
        let total = detail.and_then(|detail| bytes(detail.total)).unwrap_or(0);
        let layer = self.0.entry(line.id.clone().unwrap_or_default());
        let layer = layer.or_default();
        match line.status.as_deref() {
            Some("Downloading") if total > 0 => {
                let current = detail.and_then(|detail| bytes(detail.current));
                *layer = (current.unwrap_or(0), total);
            }
            Some("Download complete" | "Pull complete") => layer.0 = layer.1,
            _ => {}
        }
        let sum = |sum: (u64, u64), layer: &(u64, u64)| (sum.0 + layer.0, sum.1 + layer.1);
        self.0.values().fold((0, 0), sum)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_add_up() {
        let mut layers = Layers::default();
        for (id, status, detail, expected) in [
            (
                "a",
                "Downloading",
                json!({"current": 5, "total": 10}),
                (5, 10),
            ),
            (
                "b",
                "Downloading",
                json!({"current": 1, "total": 90}),
                (6, 100),
            ),
            ("a", "Download complete", json!({}), (11, 100)),
        ] {
            let line = json!({"id": id, "status": status, "progressDetail": detail});
            assert_eq!(
                layers.advance(&serde_json::from_value(line).unwrap()),
                expected
            );
        }
    }
}
