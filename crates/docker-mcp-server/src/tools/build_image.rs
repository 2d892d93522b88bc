//! `build_image`.

mod context;
mod dockerignore;

use std::collections::{BTreeMap, HashMap};

use bollard::errors::Error;
use bollard::query_parameters::BuildImageOptionsBuilder;
use futures_util::StreamExt as _;
use upstream::text::newest_lines;

use super::prelude::*;
use super::short_id;
use super::wait_container::cancelled;
use crate::policy::CREATED;

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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Built {
    tag: String,
    id: String,
    steps: u32,
    /// The end of the builder's output.
    log: String,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for BuildImage {
    const NAME: &'static str = "build_image";
    const EFFECT: Effect = Effect::Additive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Built;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Built, ToolError> {
        docker.permit_image(&self.tag)?;
        let context = self.context(docker).await?;
        let build_args: HashMap<&str, &str> = (self.build_args.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let options = BuildImageOptionsBuilder::new()
            .t(self.tag.as_str())
            .dockerfile(context::DOCKERFILE)
            .labels(&HashMap::from([(CREATED, "true")]))
            .buildargs(&build_args)
            .nocache(self.no_cache)
            .forcerm(true)
            .target(self.target.as_deref().unwrap_or_default());
        let streams = docker.engine.streams();
        let mut lines = streams.build_image(
            options.build(),
            None,
            Some(bollard::body_full(context.into())),
        );
        let (mut log, mut id, mut steps) = (String::new(), String::new(), 0);
        let redactor = docker.redactor();
        loop {
            let line = tokio::select! {
                biased;
                // The builder stops with the connection.
                () = call.cancelled() => return Err(cancelled()),
                line = lines.next() => line,
            };
            let line = match line {
                None => break,
                Some(Ok(line)) => line,
                Some(Err(Error::DockerStreamError { error })) => {
                    let shown = redactor.text(&log);
                    let text = format!(
                        "The build failed: {}. The end of its output:\n{}",
                        redactor.text(&error),
                        newest_lines(&shown, MAX_LOG / 2)
                    );
                    return Err(ToolError::new(ToolErrorKind::Upstream, text));
                }
                Some(Err(error)) => return Err(docker.engine.explain(error.into())),
            };
            let output = line.stream.unwrap_or_default();
            if let Some((step, total)) = step(&output) {
                steps = step;
                let text = redactor.text(output.trim());
                call.progress(step.into(), Some(total.into()), &text);
            }
            log.push_str(&output);
            if log.len() > 2 * KEPT {
                let from = log.len() - KEPT;
                let from = (from..log.len()).find(|at| log.is_char_boundary(*at));
                log.drain(..from.unwrap_or(0));
            }
            if let Some(image) = line.aux.and_then(|aux| aux.id) {
                id = image;
            }
        }
        let text = redactor.text(&log);
        Ok(Built {
            tag: self.tag.to_string(),
            id: short_id(&id).to_owned(),
            steps,
            log: newest_lines(&text, MAX_LOG).to_owned(),
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
