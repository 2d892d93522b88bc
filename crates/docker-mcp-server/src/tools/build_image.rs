//! `build_image`.

mod context;

use std::collections::BTreeMap;

use http::Method;
use mcp_core::tool::{Call, Effect, TaskSupport, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::get_container_logs::newest;
use super::progress::Line;
use super::short_id;
use super::wait_container::cancelled;
use crate::Docker;
use crate::engine::{Body, Lines, Path};
use crate::name::ImageName;
use crate::policy::{CREATED, Subject};

/// Bytes of the builder's output in an answer, which has them twice.
const MAX_LOG: usize = 12_000;
/// Bytes of it that are kept meanwhile.
const KEPT: usize = 64 << 10;

/// Build an image from the text of a Dockerfile, or from a directory of the server that the
/// operator has allowed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildImage {
    /// Name of the result, `name:tag`.
    tag: ImageName,
    /// Text of the Dockerfile; in a directory, default: its own.
    dockerfile: Option<String>,
    /// Absolute; what is copied from.
    directory: Option<String>,
    /// Further files, by relative path.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Values of its ARGs.
    #[serde(default)]
    build_args: BTreeMap<String, String>,
    /// Stage to build.
    target: Option<String>,
    /// Run every step anew.
    #[serde(default)]
    no_cache: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Built {
    tag: String,
    id: String,
    steps: u32,
    /// The end of the builder's output.
    log: String,
    /// Values hidden as `***`.
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted: Option<u32>,
}

impl Tool for BuildImage {
    const NAME: &'static str = "build_image";
    const EFFECT: Effect = Effect::Additive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Built;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Built, ToolError> {
        docker.permit(&Subject::Image(self.tag.as_str()))?;
        let context = self.context(docker).await?;
        let labels = json!({CREATED: "true"});
        let mut path = Path::to("/build")
            .query("t", &self.tag)
            .query("dockerfile", context::DOCKERFILE)
            .query("labels", labels)
            .query("buildargs", json!(self.build_args))
            .query("nocache", self.no_cache)
            .query("forcerm", true);
        if let Some(target) = &self.target {
            path = path.query("target", target);
        }
        let reply = docker
            .engine
            .follow(Method::POST, path, Body::Tar(context.into()));
        let mut lines = Lines::new(reply.map_err(|failure| docker.engine.explain(failure))?);
        let (mut log, mut id, mut steps) = (String::new(), String::new(), 0);
        let mut redactor = docker.redactor();
        loop {
            let line = tokio::select! {
                biased;
                // The builder stops with the connection.
                () = call.cancelled() => return Err(cancelled()),
                line = lines.next::<Line>() => line,
            };
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(failure) => return Err(docker.engine.explain(failure)),
            };
            if let Some((step, total)) = step(&line.stream) {
                steps = step;
                let text = redactor.text(line.stream.trim());
                call.progress(step.into(), Some(total.into()), &text);
            }
            log.push_str(&line.stream);
            if log.len() > 2 * KEPT {
                let from = log.len() - KEPT;
                let from = (from..log.len()).find(|at| log.is_char_boundary(*at));
                log.drain(..from.unwrap_or(0));
            }
            if let Some(aux) = line.aux {
                id = aux.id;
            }
            if let Some(error) = line.error {
                let shown = redactor.text(&log);
                let text = format!(
                    "The build failed: {}. The end of its output:\n{}",
                    redactor.text(&error),
                    newest(&shown, MAX_LOG / 2)
                );
                return Err(ToolError::new(ToolErrorKind::Upstream, text));
            }
        }
        let text = redactor.text(&log);
        Ok(Built {
            tag: self.tag.to_string(),
            id: short_id(id.trim_start_matches("sha256:")).to_owned(),
            steps,
            log: newest(&text, MAX_LOG).to_owned(),
            redacted: redactor.hidden(),
        })
    }
}

impl BuildImage {
    async fn context(&self, docker: &Docker) -> Result<Vec<u8>, ToolError> {
        let directory = match &self.directory {
            Some(path) => Some(docker.policy.directory(path)?),
            None if self.dockerfile.is_none() => {
                return Err(ToolError::invalid_argument("Give dockerfile or directory."));
            }
            None => None,
        };
        let (dockerfile, files) = (self.dockerfile.clone(), self.files.clone());
        let packed = tokio::task::spawn_blocking(move || {
            context::pack(directory.as_deref(), dockerfile.as_deref(), &files)
        });
        packed
            .await
            .map_err(|error| ToolError::upstream("The files cannot be read.").caused_by(error))?
    }
}

/// `Step 2/5 : RUN make`.
fn step(line: &str) -> Option<(u32, u32)> {
    let rest = line.strip_prefix("Step ")?;
    let (step, total) = rest.split(' ').next()?.split_once('/')?;
    Some((step.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn steps_are_counted() {
        assert_eq!(super::step("Step 2/15 : RUN make\n"), Some((2, 15)));
        assert_eq!(super::step(" ---> Running in ab"), None);
    }
}
