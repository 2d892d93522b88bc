//! `build_image`.

use std::collections::HashMap;

use super::deadline::{Deadline, Seconds};
use super::prelude::*;
use crate::engine::{BuildRequest, EngineError, build};
use crate::policy::CREATED;

/// Bytes of the builder's output in an answer, which contains them twice.
const MAX_LOG_BYTES: usize = 12_000;
/// Bytes of the builder's output that are kept during the build.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// Build an image from the text of a Dockerfile, or from a directory of the server that the
/// operator has allowed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildImage {
    /// Name of the result, `name:tag`.
    tag: ImageName,
    /// Text of the Dockerfile; in a directory, default: its own.
    dockerfile: Option<String>,
    /// Absolute; to copy from.
    directory: Option<String>,
    /// Further files, by relative path.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Values of its ARGs.
    #[serde(default)]
    build_args: BTreeMap<String, String>,
    /// Stage to build.
    target: Option<String>,
    /// Rerun every step.
    #[serde(default)]
    no_cache: bool,
    /// Until it is ended; default 600.
    timeout_seconds: Option<Seconds>,
    /// The tag again, if an image of others has it and the user cannot be asked.
    confirm: Option<String>,
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
    // Only if an image of others has the name.
    const EFFECT: Effect = Effect::PartlyDestructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Built;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Built, ToolError> {
        docker.permit_image(&self.tag)?;
        let (context, dockerfile) = self.context(docker).await?;
        let permit = || docker.permit_build(&dockerfile, &self.build_args, false, true);
        let slow = |_| "A base image could not be got in time: call pull_image first.".to_owned();
        let deadline = Deadline::new(call, self.timeout_seconds);
        deadline.run(call, permit(), slow).await??;
        docker
            .confirm_name(call, &self.tag, None, &self.confirm)
            .await?;
        // The user may have taken minutes.
        permit().await?;
        let used = build::images(&dockerfile, &self.build_args).names;
        let mut lines = docker.engine.build(BuildRequest {
            tag: &self.tag,
            context,
            labels: HashMap::from([(CREATED, "true")]),
            args: &self.build_args,
            stage: self.target.as_deref(),
            no_cache: self.no_cache,
            logins: docker.registries.logins(&used).await?,
        });
        let (mut log, mut id, mut steps) = (String::new(), String::new(), 0);
        let build_args = self.build_args.iter();
        let build_args = build_args.map(|(name, value)| (name.as_str(), value.as_str()));
        let redactor = docker.redactor().with_secrets(build_args);
        let deadline = Deadline::new(call, self.timeout_seconds);
        loop {
            let ended = |seconds| {
                let log = redactor.text(&log);
                format!(
                    "The build did not end within {seconds} s and was ended; a longer \
                     timeout_seconds may let it end by itself. Its output so far:\n{}",
                    newest_lines(&log, MAX_LOG_BYTES / 2)
                )
            };
            // The builder stops with the connection.
            let line = deadline.run(call, lines.next(), ended).await?;
            let line = match line {
                None => break,
                Some(Ok(line)) => line,
                Some(Err(EngineError::Failed(error))) => {
                    let (log, error) = (redactor.text(&log), redactor.text(&error));
                    let end = newest_lines(&log, MAX_LOG_BYTES / 2);
                    return Err(ToolError::upstream(format!(
                        "The build failed: {error}. The end of its output:\n{end}"
                    )));
                }
                Some(Err(error)) => return Err(docker.engine.explain(error)),
            };
            let output = line.output;
            if let Some((step, total)) = step(&output) {
                steps = step;
                let text = redactor.text(output.trim());
                call.progress(step.into(), Some(total.into()), &text);
            }
            log.push_str(&output);
            keep_end(&mut log, MAX_KEPT_BYTES);
            if let Some(image) = line.image {
                id = image;
            }
        }
        let text = redactor.text(&log);
        Ok(Built {
            tag: self.tag.to_string(),
            id: short_id(&id).to_owned(),
            steps,
            log: newest_lines(&text, MAX_LOG_BYTES).to_owned(),
            redacted: redactor.hidden(),
        })
    }
}

impl BuildImage {
    async fn context(&self, docker: &Docker) -> Result<(Vec<u8>, String), ToolError> {
        let directory = match &self.directory {
            Some(path) => Some(docker.policy.directory(path)?),
            None if self.dockerfile.is_none() => {
                return Err(ToolError::invalid_argument("Give dockerfile or directory."));
            }
            None => None,
        };
        let (dockerfile, files) = (self.dockerfile.clone(), self.files.clone());
        let packed = tokio::task::spawn_blocking(move || {
            build::pack(directory.as_deref(), dockerfile.as_deref(), &files)
        });
        let failed = |error| ToolError::upstream("The files cannot be read.").caused_by(error);
        packed.await.map_err(failed)?
    }
}

/// `Step 2/5 : RUN make`.
fn step(line: &str) -> Option<(u32, u32)> {
    let rest = line.strip_prefix("Step ")?;
    let (step, total) = rest.split(' ').next()?.split_once('/')?;
    Some((step.parse().ok()?, total.parse().ok()?))
}
