//! Tools of images.

use std::path::PathBuf;
use std::pin::pin;

use bollard::models::{CreateImageInfo, ProgressDetail};
use bollard::query_parameters::{CreateImageOptionsBuilder, PushImageOptionsBuilder};
use futures_util::{Stream, TryStreamExt as _};
use upstream::text::truncate_list;

use super::prelude::*;
use crate::cli::{self, BUILDX, BuildDirectory, Cli, Run};
use crate::engine::EngineError;
use crate::engine::registry::{self, RegistryLogin};
use crate::policy::{CREATED, full_name};

const MAX_TAGS: usize = 20;

const MAX_TEXT: usize = 300;
const MAX_ITEMS: usize = 40;

/// List images, newest first, each with its container count; or inspect one, with its layers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListImages {
    /// Inspects this one, by name or id.
    image: Option<ImageName>,
    /// The tag contains this.
    name: Option<String>,
    /// Lists only those without a tag.
    #[serde(default)]
    dangling: bool,
    /// Limits the rows.
    limit: Option<Bounded<1, 500>>,
    /// Skips so many rows.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Images {
    images: Vec<ImageRow>,
    /// The image that is inspected.
    image: Option<Box<ImageView>>,
    /// Rows that do not fit.
    omitted: Option<usize>,
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ImageRow {
    id: String,
    tags: Vec<String>,
    size_bytes: i64,
    created: String,
    /// Containers that were made from it, stopped ones included.
    containers: usize,
}

impl Tool for ListImages {
    const NAME: &'static str = "list_images";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Images;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Images, ToolError> {
        if let Some(image) = &self.image {
            return Ok(Images {
                image: Some(Box::new(ImageView::read(docker, image).await?)),
                ..Images::default()
            });
        }
        let mut images = docker.engine.images().await?;
        let users = docker.image_usage().await?;
        let part = self.name.as_deref().map(str::to_lowercase);
        images.retain(|image| {
            let has = |part: &String| {
                let mut tags = image.tags();
                tags.any(|tag| tag.to_lowercase().contains(part))
            };
            part.as_ref().is_none_or(has) && (!self.dangling || image.tags().next().is_none())
        });
        images.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        let redactor = docker.redactor();
        let rows = images.iter().map(|image| ImageRow {
            id: short_id(&image.id).to_owned(),
            tags: truncate_list(image.tags().map(|tag| redactor.text(tag)), MAX_TAGS),
            size_bytes: image.size,
            created: rfc3339(image.created),
            containers: users.get(&image.id).copied().unwrap_or_default(),
        });
        let limit = self.limit.map_or(usize::MAX, |limit| limit.get() as usize);
        let (images, omitted, note) = page(rows, self.offset, limit);
        Ok(Images {
            images,
            image: None,
            omitted,
            note,
        })
    }
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ImageView {
    id: String,
    tags: Vec<String>,
    digests: Vec<String>,
    created: String,
    size_bytes: i64,
    /// `linux/amd64`.
    platform: String,
    /// `root` if none is set.
    user: String,
    working_dir: String,
    entrypoint: String,
    command: String,
    env: Vec<String>,
    ports: Vec<String>,
    volumes: Vec<String>,
    labels: BTreeMap<String, String>,
    has_health_check: bool,
    /// Newest layer first.
    history: Vec<Layer>,
    omitted_layers: Option<usize>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

/// A layer as the engine describes it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct PastLayer {
    created: i64,
    created_by: String,
    size: i64,
}

#[derive(Serialize, JsonSchema)]
struct Layer {
    created: String,
    size_bytes: i64,
    command: String,
}

impl ImageView {
    async fn read(docker: &Docker, image: &ImageName) -> Result<Self, ToolError> {
        let details = docker.image(image).await?;
        let path = Path::to("/images").id(image).then("/history");
        let history: Vec<PastLayer> = docker.engine.get(path).await?;
        let redactor = docker.redactor();
        let config = &details.config;
        let short = |text: String| truncate(&text, MAX_TEXT);
        let layers = history.iter().map(|past| Layer {
            created: rfc3339(past.created),
            size_bytes: past.size,
            command: short(redactor.text(instruction(&past.created_by))),
        });
        let (history, omitted_layers) = fit(layers.collect());
        let labels = redacted_labels(&config.labels, MAX_ITEMS, &redactor).into_iter();
        let env = config.env.iter().take(MAX_ITEMS);
        let line = |words: &[String]| short(redactor.command(words.iter().map(String::as_str)));
        let texts = |list: &mut dyn Iterator<Item = &String>| {
            list.take(MAX_ITEMS).map(|one| redactor.text(one)).collect()
        };
        Ok(Self {
            id: short_id(&details.id).to_owned(),
            tags: texts(&mut details.repo_tags.iter()),
            digests: texts(&mut details.repo_digests.iter()),
            created: details.created.clone(),
            size_bytes: details.size,
            platform: format!("{}/{}", details.os, details.architecture),
            user: match &*config.user {
                "" => "root".to_owned(),
                user => redactor.text(user),
            },
            working_dir: redactor.text(&config.working_dir),
            entrypoint: line(&config.entrypoint),
            command: line(&config.cmd),
            env: env.map(|text| short(redactor.assignment(text))).collect(),
            ports: texts(&mut config.exposed_ports.keys()),
            volumes: texts(&mut config.volumes.keys()),
            labels: labels.map(|(key, value)| (key, short(value))).collect(),
            has_health_check: config.healthcheck.is_some(),
            history,
            omitted_layers,
            redacted: redactor.hidden(),
        })
    }
}

/// The instruction of a layer, without the prefixes that the builder adds.
fn instruction(created_by: &str) -> &str {
    let text = created_by.trim_start_matches("/bin/sh -c ");
    text.trim_start_matches("#(nop) ").trim()
}

/// Get an image from its registry, with progress.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PullImage {
    /// Give `name:tag`; default tag: latest.
    image: ImageName,
    /// Give one like `linux/arm64`; default: the engine's.
    platform: Option<String>,
    /// Ends it after so long; default 600.
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
        docker.policy.permit_pull(image.as_str(), old.is_built())?;
    }
    let login = docker.registries.login(image).await?;
    let (name, tag) = image.split();
    let options = CreateImageOptionsBuilder::new().from_image(name).tag(tag);
    let options = options.platform(platform.unwrap_or_default()).build();
    let streams = &docker.engine.streams;
    let lines = streams.create_image(Some(options), None, login.credentials());
    let status = transfer(docker, call, deadline, ("pulled", image, &login), lines).await?;
    Ok(status.contains("Downloaded newer image"))
}

/// Send an image to the registry in its name, with the operator's login.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PushImage {
    /// Give `registry/path:tag`; tag_image makes one.
    image: ImageName,
    /// Ends it after so long; default 600.
    timeout_seconds: Option<Seconds>,
    /// Pass the refusal's value once the user agrees.
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
        let details = docker.mutable_image(&self.image).await?;
        let (name, tag) = self.image.split();
        let registry = registry::server(&self.image);
        if tag.contains(':') {
            let text = "Give the image by a name with a tag, not by a digest.";
            return Err(ToolError::invalid_argument(text));
        }
        let loss = format!(
            "Sends `{name}:{tag}` ({}) to the registry `{registry}`, where it replaces the image of this \
             name for everybody.",
            short_id(&details.id)
        );
        let target = self.image.as_str();
        let object = Object::image(&self.image, &details.id);
        docker
            .confirm(call, &loss, target, &[object], &self.confirm)
            .await?;
        let deadline = Deadline::new(call, self.timeout_seconds);
        let login = docker.registries.login(&self.image).await?;
        let options = Some(PushImageOptionsBuilder::new().tag(tag).build());
        let streams = &docker.engine.streams;
        let lines = streams.push_image(name, options, login.credentials());
        let lines = lines.map_ok(|line| CreateImageInfo {
            status: line.status,
            progress_detail: line.progress_detail,
            ..CreateImageInfo::default()
        });
        let of = ("pushed", &self.image, &login);
        // `1: digest: sha256:… size: 527`
        let status = transfer(docker, call, &deadline, of, lines).await?;
        let mut words = status.split(' ');
        let digest = words.find(|word| word.starts_with("sha256:"));
        Ok(Pushed {
            image: format!("{name}:{tag}"),
            registry: registry.to_owned(),
            digest: digest.map(str::to_owned),
        })
    }
}

/// An image that is transferred between the engine and its registry: `pulled` or `pushed`, and the login that the docker
/// configuration has for the registry.
type Transfer<'a> = (&'static str, &'a ImageName, &'a RegistryLogin);

/// Reads the engine's `lines` to their end, with progress; returns the last status.
/// Errors with advice when the registry refuses, or the call is cancelled: the engine stops with the connection.
async fn transfer(
    docker: &Docker,
    call: &Call,
    deadline: &Deadline,
    of: Transfer<'_>,
    lines: impl Stream<Item = Result<CreateImageInfo, bollard::errors::Error>>,
) -> Result<String, ToolError> {
    let ((verb, image, _), mut last) = (of, String::new());
    let (mut lines, mut layers) = (pin!(lines), Layers::default());
    let ended = |seconds| {
        format!(
            "`{image}` was not {verb} within {seconds} s, so that was ended. Complete layers are kept: \
             call again, or with a longer timeout_seconds."
        )
    };
    while let Some(line) = deadline.run(call, lines.next(), ended).await? {
        let line = line.map_err(|failure| match failure.into() {
            EngineError::Failed(message) => refused(docker, of, &message),
            EngineError::Refused { message, .. } if !message.is_empty() => {
                refused(docker, of, &message)
            }
            failure => docker.engine.explain(failure.of_change()),
        })?;
        let (status, (done, total)) = layers.advance(line);
        if total > 0 {
            let text = docker.redactor().text(&status);
            call.progress(done as f64, Some(total as f64), &text);
        }
        if !status.is_empty() {
            last = status;
        }
    }
    Ok(last)
}

/// The bytes of each layer: those that have arrived, and all.
#[derive(Default)]
struct Layers(BTreeMap<String, (u64, u64)>);

impl Layers {
    /// Applies a line of the engine's output. Returns its text, which may be empty, and the bytes of all layers that have
    /// arrived, and those of all layers as far as they are known.
    fn advance(&mut self, line: CreateImageInfo) -> (String, (u64, u64)) {
        let bytes = |count: Option<i64>| count.and_then(|bytes| u64::try_from(bytes).ok());
        let status = line.status.unwrap_or_default();
        let ProgressDetail { current, total } = line.progress_detail.unwrap_or_default();
        let (current, total) = (bytes(current), bytes(total).unwrap_or(0));
        let layer = self.0.entry(line.id.unwrap_or_default()).or_default();
        match &*status {
            "Downloading" if total > 0 => *layer = (current.unwrap_or(0), total),
            "Download complete" | "Pull complete" => layer.0 = layer.1,
            _ => {}
        }
        let sum = |sum: (u64, u64), layer: &(u64, u64)| (sum.0 + layer.0, sum.1 + layer.1);
        (status, self.0.values().fold((0, 0), sum))
    }
}

/// The error of the registry, with the engine's message and advice.
fn refused(docker: &Docker, (verb, image, login): Transfer<'_>, message: &str) -> ToolError {
    let message = without_body(message);
    let lower = message.to_lowercase();
    let has = |text: &str| lower.contains(text);
    let is_denied = ["unauthorized", "denied", "authentication", "no basic auth"];
    let (kind, next) = if has("not found") || has("manifest unknown") {
        let next = "Check the name and the tag.".to_owned();
        (ToolErrorKind::NotFound, next)
    } else if is_denied.into_iter().any(has) {
        let registry = registry::server(image);
        let next = match login {
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
    } else if message.starts_with("error parsing HTTP") {
        let next = "The program that answered is no registry.".to_owned();
        (ToolErrorKind::Upstream, next)
    } else {
        (ToolErrorKind::Upstream, String::new())
    };
    let message = docker.redactor().text(message);
    let message: String = message.chars().take(MAX_TEXT).collect();
    let text = format!("`{image}` cannot be {verb}: {message}. {next}");
    ToolError::new(kind, text.trim_end().to_owned())
}

/// The first line of the engine's message about a registry, without the body of an answer that is none of a registry: the
/// name of an image may lead to any program that the engine reaches.
fn without_body(message: &str) -> &str {
    let line = message.trim().lines().next().unwrap_or_default();
    let end = line.find(" response body");
    line[..end.unwrap_or(line.len())].trim_end_matches('.')
}

/// Bytes of the builder's output in an answer, which contains them twice.
const MAX_LOG_BYTES: usize = 12_000;

/// Build an image from the text of a Dockerfile, or from a directory of the server that the operator has allowed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildImage {
    /// Names the result: `name:tag`.
    tag: ImageName,
    /// Gives the Dockerfile's text; a directory has its own by default.
    dockerfile: Option<String>,
    /// Copies from this absolute path.
    directory: Option<String>,
    /// Gives files to copy from without a directory, by relative path.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Sets its ARGs.
    #[serde(default)]
    build_args: BTreeMap<String, String>,
    /// Builds this stage.
    target: Option<String>,
    /// Reruns every step.
    #[serde(default)]
    no_cache: bool,
    /// Ends it after so long; default 600.
    timeout_seconds: Option<Seconds>,
    /// Pass the refusal's value once the user agrees.
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
        let dockerfile = self.dockerfile.iter().map(|text| ("dockerfile", &**text));
        let values = pairs(&self.files).chain(pairs(&self.build_args));
        refuse_hidden(docker, dockerfile.chain(values))?;
        let texts = BuildDirectory::new(&self.files)?;
        let directory = match &self.directory {
            Some(path) => self.checked(docker, path)?,
            None if self.dockerfile.is_none() => {
                return Err(ToolError::invalid_argument("Give dockerfile or directory."));
            }
            None => texts.context(),
        };
        docker.permit_build().await?;
        let (files, args) = (&self.files, &self.build_args);
        let made_of = json!([self.dockerfile, self.directory, files, args, self.target]);
        docker
            .confirm_name(call, &self.tag, None, &made_of.to_string(), &self.confirm)
            .await?;
        let mut buildx = Cli::find(docker, directory, &BUILDX).await?;
        buildx.set(texts.variables(docker));
        let label = format!("--label={CREATED}={}", full_name(self.tag.as_str()));
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
        let redactor = docker.redactor().with_secrets(pairs(&self.build_args));
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

/// Give an image another name. If another image has that name, it loses it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TagImage {
    /// Name or id.
    image: ImageName,
    /// `name:tag`.
    new_name: ImageName,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

impl Tool for TagImage {
    const NAME: &'static str = "tag_image";
    // Only if another image has the name.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let (name, tag) = self.new_name.split();
        if tag.contains(':') {
            let text = "new_name must have a tag, not a digest.";
            return Err(ToolError::invalid_argument(text));
        }
        let source = docker.image(&self.image).await?;
        let id = Some(source.id.as_str());
        docker
            .confirm_name(call, &self.new_name, id, "", &self.confirm)
            .await?;
        // By its id: the name may move meanwhile.
        let image = ImageName::new(&source.id).unwrap_or(self.image.clone());
        let path = Path::to("/images").id(&image).then("/tag");
        let path = path.query("repo", name).query("tag", tag);
        let action = Action::new("tag", ObjectKind::Image, self.image.as_str());
        docker.post(action, path, None, 0).await?;
        Ok(ObjectChange::new(&self.new_name, "tagged"))
    }
}

/// Remove an image, or one of its names if it has several.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveImage {
    /// Name or id.
    image: ImageName,
    /// Removes it with all its names, also if stopped containers use it.
    #[serde(default)]
    force: bool,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

impl Tool for RemoveImage {
    const NAME: &'static str = "remove_image";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let details = docker.mutable_image(&self.image).await?;
        let name = self.image.as_str();
        let hex = name.trim_start_matches("sha256:");
        let is_id = details.id.trim_start_matches("sha256:").starts_with(hex);
        let id = short_id(&details.id);
        // By a name it loses this one alone, also by force.
        let has_others = details.repo_tags.len() > 1 && !is_id;
        let mut names = details.repo_tags.clone();
        names.sort();
        let named = match is_id && !names.is_empty() {
            true => format!("`{name}` with its names `{}`", names.join("`, `")),
            false => format!("`{name}`"),
        };
        let loss = match has_others {
            true => {
                format!("Removes the name `{name}` from the image {id} that also has other names.")
            }
            false => format!(
                "Removes the image {named} ({id}, {} MB): it would have to be pulled or built again.",
                details.size / 1_000_000
            ),
        };
        let object = Object::image(&self.image, &details.id);
        docker
            .confirm(call, &loss, name, &[object], &self.confirm)
            .await?;
        if is_id {
            // The user may have taken minutes.
            let mut now = docker.image(&self.image).await?.repo_tags;
            now.sort();
            if now != names {
                return Err(ToolError::conflict(format!(
                    "`{name}` has other names by now. Nothing was done: call again."
                )));
            }
        }
        let action = Action::new("remove", ObjectKind::Image, name);
        let path = Path::to("/images")
            .id(&self.image)
            .query("force", self.force);
        docker.delete(action, path).await?;
        let done = ObjectChange::new(name, "removed");
        if !has_others
            && let Ok(left) = ImageName::new(&details.id)
            && docker.try_image(&left).await?.is_some()
        {
            return Ok(done.with_note(format!(
                "Only the name was removed: the image {id} stays without one, since a container or another image needs it."
            )));
        }
        Ok(done.with_note(loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_registries_have_no_body_of_another_program() {
        for (message, expected) in [
            (
                r#"error parsing HTTP 404 response body: invalid character '<' looking for beginning of value: "<html>x""#,
                "error parsing HTTP 404",
            ),
            (
                "manifest unknown: manifest unknown",
                "manifest unknown: manifest unknown",
            ),
            ("no such host.\n<html>", "no such host"),
        ] {
            assert_eq!(without_body(message), expected);
        }
    }
}
