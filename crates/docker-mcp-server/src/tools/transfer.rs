//! Pulls and pushes of images: progress, and errors of the registry.

use super::deadline::Deadline;
use super::prelude::*;
use crate::engine::registry::{self, RegistryLogin};
use crate::engine::{EngineError, TransferStream};

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
        mut lines: TransferStream,
    ) -> Result<String, ToolError> {
        let mut last = String::new();
        let ended = |seconds| {
            format!(
                "`{}` was not {} within {seconds} s, so that was ended. Complete layers are kept: \
                 call again, or with a longer timeout_seconds.",
                self.image, self.done
            )
        };
        while let Some(line) = deadline.run(call, lines.next(), ended).await? {
            let line = line.map_err(|error| self.explain(docker, error))?;
            let (done, total) = line.bytes;
            if total > 0 {
                let text = docker.redactor().text(&line.status);
                call.progress(done as f64, Some(total as f64), &text);
            }
            if !line.status.is_empty() {
                last = line.status;
            }
        }
        Ok(last)
    }

    fn explain(&self, docker: &Docker, failure: EngineError) -> ToolError {
        match failure {
            EngineError::Failed(message) => self.refused(docker, &message),
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
