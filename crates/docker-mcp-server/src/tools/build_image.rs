//! `build_image`.

use std::path::PathBuf;

use super::deadline::{Deadline, Seconds};
use super::prelude::*;
use crate::cli::{self, BuildDirectory, Cli, Run};
use crate::policy::CREATED;

/// Bytes of the builder's output in an answer, which contains them twice.
const MAX_LOG_BYTES: usize = 12_000;

/// Build an image from the text of a Dockerfile, or from a directory of the server that the
/// operator has allowed. Needs `docker buildx` where this server runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildImage {
    /// Name of the result, `name:tag`.
    tag: ImageName,
    /// Text of the Dockerfile; in a directory, default: its own.
    dockerfile: Option<String>,
    /// Absolute; to copy from.
    directory: Option<String>,
    /// Without a directory: files to copy from, by relative path.
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
        let texts = BuildDirectory::new(&self.files)?;
        let directory = match &self.directory {
            Some(path) => self.checked(docker, path)?,
            None if self.dockerfile.is_none() => {
                return Err(ToolError::invalid_argument("Give dockerfile or directory."));
            }
            None => texts.context(),
        };
        docker.permit_build().await?;
        docker
            .confirm_name(call, &self.tag, None, &self.confirm)
            .await?;
        let mut buildx = Cli::buildx(docker, directory).await?;
        buildx.set(texts.variables(docker));
        let label = format!("--label={CREATED}=true");
        let mut arguments = vec!["build", "--progress=plain", "--load", &label];
        arguments.extend(["--tag", self.tag.as_str()]);
        arguments.extend(self.dockerfile.is_some().then_some("--file=-"));
        arguments.extend(self.no_cache.then_some("--no-cache"));
        let target = self
            .target
            .as_ref()
            .map(|target| format!("--target={target}"));
        arguments.extend(target.as_deref());
        let build_args = self.build_args.iter();
        let values: Vec<String> = build_args
            .map(|(name, value)| format!("--build-arg={name}={value}"))
            .collect();
        arguments.extend(values.iter().map(String::as_str));
        arguments.push(".");
        let build_args = self.build_args.iter();
        let build_args = build_args.map(|(name, value)| (name.as_str(), value.as_str()));
        let redactor = docker.redactor().with_secrets(build_args);
        let deadline = Deadline::new(call, self.timeout_seconds);
        let run = Run {
            arguments: &arguments,
            input: self.dockerfile.clone(),
            ..Run::default()
        };
        let built = buildx.run(docker, call, &deadline, &redactor, run).await?;
        if !built.succeeded {
            let what = "The build failed";
            return Err(cli::failed(&redactor, what, &built, MAX_LOG_BYTES / 2));
        }
        let image = docker.image(&self.tag).await?;
        let text = redactor.text(&built.text);
        Ok(Built {
            tag: self.tag.to_string(),
            id: short_id(&image.id).to_owned(),
            steps: built.text.lines().filter_map(steps).max().unwrap_or(0),
            log: newest_lines(&text, MAX_LOG_BYTES).to_owned(),
            redacted: redactor.hidden(),
        })
    }
}

impl BuildImage {
    /// The directory at `path`, if its files may be read.
    fn checked(&self, docker: &Docker, path: &str) -> Result<PathBuf, ToolError> {
        let directory = docker.policy.directory(path)?;
        if !self.files.is_empty() {
            return Err(ToolError::invalid_argument(
                "files: a build of a directory copies only from it. Write a file in the Dockerfile instead: \
                 COPY <<EOF /path.",
            ));
        }
        let file = directory.join("Dockerfile");
        if self.dockerfile.is_none() {
            docker.policy.file(&file)?;
            if !file.is_file() {
                let text = "The directory has no Dockerfile: give dockerfile.";
                return Err(ToolError::not_found(text));
            }
        }
        docker.policy.file(&directory.join(".dockerignore"))?;
        Ok(directory)
    }
}

/// The number of steps in a line of the builder: `#5 [2/3] RUN make`, `#5 [build 2/3] RUN make`.
fn steps(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once(" [")?;
    let (inner, _) = rest.split_once(']')?;
    let (_, total) = inner.rsplit(' ').next()?.split_once('/')?;
    total.parse().ok()
}
