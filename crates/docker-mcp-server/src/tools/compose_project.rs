//! Compose projects in a directory, resolved by the compose program and judged by the policy, and the tools that read
//! compose files.

use std::fs::{self, Permissions};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::prelude::*;
use crate::cli::{self, BuildDirectory, COMPOSE, Cli, Output, Run};
use crate::compose::{self, ComposeModel, UpOptions};
use crate::policy::Policy;

/// Bytes of the program's output in an answer, which contains it twice.
pub(super) const MAX_BYTES: usize = 12_000;
/// Seconds to resolve a project, which needs less than one on a machine that is not busy.
const MAX_CONFIG_SECONDS: u32 = 10;
/// Seconds for the program to say what it would do.
const MAX_DRY_RUN_SECONDS: u32 = 60;
/// States in a dry run of a container that keeps its files: in any other one it counts as lost.
const KEPT_STATES: &str =
    "Running Created Creating Starting Started Stopping Stopped Waiting Healthy Exited";
/// The names of a project's file, in the order in which compose looks for them.
const NAMES: [&str; 4] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
];

pub(super) struct ComposeProject {
    pub(super) name: String,
    directory: PathBuf,
    /// The first compose file, which may not exist yet.
    pub(super) file: PathBuf,
    pub(super) model: ComposeModel,
    /// Marks what is created as this server's.
    pub(super) is_own: bool,
    compose: Cli,
    /// Warnings of the program about it, such as variables without a value.
    warnings: Vec<String>,
}

impl ComposeProject {
    /// Lets the compose program resolve the project, without access to other files than those of the allowed
    /// directories. Changes nothing.
    /// Errors when it is not valid.
    pub(super) async fn resolve(
        docker: &Docker,
        call: &Call,
        directory: &str,
        project: Option<&ObjectName>,
        yaml: Option<&str>,
        services: &[ObjectName],
        profiles: &[ObjectName],
    ) -> Result<Self, ToolError> {
        let directory = docker.policy.directory(directory)?;
        // Then `.env` says which files it has.
        let is_listed = yaml.is_none() && lists_files(&docker.policy, &directory)?;
        let files = files(&docker.policy, &directory, yaml.is_some() || is_listed)?;
        let mut names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        if yaml.is_some() {
            names[0] = "-".into();
        } else if is_listed {
            names.clear();
        }
        let path = directory.to_string_lossy();
        let mut arguments = vec!["--project-directory", &*path];
        let name = project.map(|name| name.as_str().to_lowercase());
        arguments.extend(name.iter().flat_map(|name| ["-p", &**name]));
        arguments.extend(names.iter().flat_map(|file| ["-f", &**file]));
        arguments.extend(
            profiles
                .iter()
                .flat_map(|profile| ["--profile", profile.as_str()]),
        );
        let compose = Cli::find(docker, directory.clone(), &COMPOSE).await?;
        let roots = &docker.policy.directories;
        let deadline = Deadline::new(call, Seconds::new(MAX_CONFIG_SECONDS));
        let redactor = docker.redactor();
        let read = async |more: &[&str]| {
            let run = Run {
                arguments: &[&arguments[..], more].concat(),
                input: yaml.map(str::to_owned),
                is_quiet: true,
                // Nothing of the host is protected from containers with all privileges.
                confined_to: (!docker.policy.is_privileged()).then_some(roots),
            };
            let read = compose.run(docker, call, &deadline, &redactor, run).await?;
            match read.succeeded {
                true => Ok(read),
                false => {
                    let what = "The project is not valid";
                    Err(cli::failed(&redactor, what, &read, MAX_BYTES))
                }
            }
        };
        let mut json = vec!["config", "--format", "json"];
        json.extend(services.iter().map(ObjectName::as_str));
        let config = read(&json).await?;
        let model = ComposeModel::parse(&config.stdout)?;
        let mut warnings = warnings(&config.text);
        if services.is_empty() {
            // To read a project needs no engine.
            let unknown = model.containers(docker, false).await.unwrap_or_default();
            if !unknown.is_empty() {
                let all = read(&["--profile", "*", "config", "--services"]).await?;
                warnings.extend(orphans(&unknown, &all.stdout));
            }
        }
        Ok(Self {
            name: model.name()?,
            model,
            is_own: false,
            file: files[0].clone(),
            directory,
            compose,
            warnings,
        })
    }

    /// Checks all that the project would create or change. Returns whether this server created it, and the
    /// names that its builds take from images.
    /// Errors when the policy does not allow it.
    pub(super) async fn permit(
        &self,
        docker: &Docker,
        options: &UpOptions,
    ) -> Result<(bool, Vec<String>), ToolError> {
        let is_own = compose::is_own(docker, &self.name).await?;
        if self.model.has_builds() && !docker.policy.may_use_host_network() {
            self.compose.permit_build(docker).await?;
        }
        Ok((is_own, self.model.check(docker, options).await?))
    }

    /// The containers that `up` would replace or remove, as the program tells them. Those that it is silent about count,
    /// too, and all of which it says what is not known here.
    pub(super) async fn losses(
        &self,
        docker: &Docker,
        call: &Call,
        arguments: &[&str],
    ) -> Result<Vec<String>, ToolError> {
        let deadline = Deadline::new(call, Seconds::new(MAX_DRY_RUN_SECONDS));
        // Started services would be waited for.
        let arguments = [&["--dry-run", "--no-start"], arguments].concat();
        // For a new container it looks for the place of a text in one that it did not make.
        let text = self.model.to_text(self.is_own, true);
        let output = self.run_up(docker, call, &deadline, &arguments, text);
        let output = output.await?;
        let told = output.text.lines().filter_map(told);
        let told = told.filter(|(kind, ..)| *kind == "Container");
        let told: Vec<_> = told.map(|(_, name, state)| (name, state)).collect();
        let is_kept = |state: &str| KEPT_STATES.split(' ').any(|kept| kept == state);
        let lost = told.iter().filter(|(_, state)| !is_kept(state));
        let mut lost: BTreeSet<String> = lost.map(|(name, _)| (*name).to_owned()).collect();
        for container in self.model.containers(docker, true).await? {
            let name = container.display_name();
            let is_told = told.iter().any(|(told, _)| *told == name);
            // It does not tell of one that was only created.
            if !is_told && container.state == "running" {
                lost.insert(name.to_owned());
            }
        }
        Ok(lost.into_iter().collect())
    }

    /// Runs `up` with what was checked; returns the end of its output.
    pub(super) async fn up(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        arguments: &[&str],
    ) -> Result<String, ToolError> {
        let arguments = [&["-d"], arguments].concat();
        let text = self.model.to_text(self.is_own, false);
        let result = self.run_up(docker, call, deadline, &arguments, text);
        let output = [&self.warnings[..], &[result.await?.text]].concat();
        Ok(newest_lines(&output.join("\n"), MAX_BYTES).to_owned())
    }

    async fn run_up(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        arguments: &[&str],
        model: String,
    ) -> Result<Output, ToolError> {
        let path = self.directory.to_string_lossy();
        // The model is complete: nothing of `.env` may set the program's own variables.
        let no_file = if cfg!(windows) { "NUL" } else { "/dev/null" };
        let up = [
            "-p",
            &self.name,
            "--project-directory",
            &path,
            "--env-file",
            no_file,
        ];
        let arguments = [&up[..], &["-f", "-", "up"], arguments].concat();
        let builds = BuildDirectory::new([])?;
        let mut compose = self.compose.clone();
        compose.set(builds.variables(docker));
        let run = Run {
            arguments: &arguments,
            input: Some(model),
            ..Run::default()
        };
        let redactor = self.model.redactor(docker);
        let result = compose.run(docker, call, deadline, &redactor, run).await?;
        match result.succeeded {
            true => Ok(result),
            false => {
                let what = format!("`{}` did not come up", self.name);
                Err(cli::failed(&redactor, &what, &result, MAX_BYTES))
            }
        }
    }
}

/// The compose files of the project in `directory`: the first, and one that overrides parts of it.
/// Errors when there is none and it `has_text` neither, or when one is a link.
fn files(policy: &Policy, directory: &Path, has_text: bool) -> Result<Vec<PathBuf>, ToolError> {
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    let mut names = NAMES.iter().map(|name| directory.join(name));
    let first = names
        .find(exists)
        .or(has_text.then(|| directory.join(NAMES[0])));
    let first = first.ok_or_else(|| {
        ToolError::not_found("The directory has no compose file: write one there, or give `yaml`.")
    })?;
    let more = NAMES.map(|name| directory.join(name.replace('.', ".override.")));
    let files: Vec<_> = [first]
        .into_iter()
        .chain(more.into_iter().find(exists))
        .collect();
    for file in files.iter().chain([&directory.join(".env")]) {
        policy.file(file)?;
    }
    Ok(files)
}

/// Whether the `.env` of the directory may name the compose files. Compose can read no others than those of the
/// allowed directories.
fn lists_files(policy: &Policy, directory: &Path) -> Result<bool, ToolError> {
    let env = directory.join(".env");
    policy.file(&env)?;
    let text = fs::read_to_string(env).unwrap_or_default();
    Ok(text.contains("COMPOSE_FILE"))
}

/// The warnings in what compose says about a project: `time=… level=warning msg="The \"A\" variable is not set."`.
fn warnings(output: &str) -> Vec<String> {
    let lines = output.lines();
    let messages = lines.filter_map(|line| line.split_once("level=warning msg=")?.1.into());
    let messages = messages.map(|text: &str| text.trim_matches('"').replace(r#"\""#, "\""));
    let mut messages: Vec<String> = messages.collect();
    // Compose tells them in another order each time; a question to the user must stay the same.
    messages.sort_unstable();
    messages
}

/// The warning of compose about containers of services that the project does not have any more.
fn orphans(containers: &[ContainerSummary], services: &str) -> Option<String> {
    let is_orphan =
        |at: &&ContainerSummary| !services.lines().any(|name| name == compose::service(at));
    let orphans = containers.iter().filter(is_orphan);
    let names: Vec<&str> = orphans.map(ContainerSummary::display_name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Found orphan containers ({}) for this project: it has no such services any more. They stay; \
             remove_container removes one.",
            names.join(", ")
        )
    })
}

/// Runs a command of compose on the project of this name, which it knows by its containers.
/// Errors when there is no program, or it was killed.
pub(super) async fn of_running(
    docker: &Docker,
    call: &Call,
    deadline: &Deadline,
    project: &ObjectName,
    arguments: &[&str],
) -> Result<Output, ToolError> {
    // A directory in which nobody else can put files.
    let compose = Cli::find(docker, PathBuf::from("/"), &COMPOSE).await?;
    let run = Run {
        arguments: &[&["-p", project.as_str()], arguments].concat(),
        ..Run::default()
    };
    let redactor = docker.redactor();
    compose.run(docker, call, deadline, &redactor, run).await
}

/// The kind, the name and the state of an object in a line of compose: `Container x  Recreate`.
pub(super) fn told(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.split_whitespace();
    let kind = words.find(|word| matches!(*word, "Container" | "Network" | "Volume"))?;
    Some((kind, words.next()?, words.next()?))
}

const MAX_WARNINGS: usize = 10;
/// Bytes of the configuration in an answer, which contains it twice.
const MAX_CONFIG_BYTES: usize = 6_500;

/// Check a compose project and show it with variables, files and defaults resolved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeConfig {
    /// Give it as to compose_up.
    directory: String,
    /// It is the directory's name by default.
    project: Option<ObjectName>,
    /// Checks this text in place of its compose file.
    yaml: Option<String>,
    /// Checks only these.
    #[serde(default)]
    services: Vec<ObjectName>,
    /// Enables these profiles.
    #[serde(default)]
    profiles: Vec<ObjectName>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownConfig {
    project: String,
    /// Without secrets.
    config: Map<String, Value>,
    /// Services that were left out; pass `services`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<String>,
    /// Such as variables without a value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Why compose_up would not bring it up.
    refused: Option<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for ComposeConfig {
    const NAME: &'static str = "compose_config";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = ShownConfig;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ShownConfig, ToolError> {
        let project = ComposeProject::resolve(
            docker,
            call,
            &self.directory,
            self.project.as_ref(),
            self.yaml.as_deref(),
            &self.services,
            &self.profiles,
        )
        .await?;
        let redactor = project.model.redactor(docker);
        let mut config = match project.model.shown(&redactor) {
            Value::Object(config) => config,
            _ => Map::new(),
        };
        let warnings = project.warnings.iter().map(|text| redactor.text(text));
        let refused = project.permit(docker, &UpOptions::default()).await.err();
        let mut omitted = Vec::new();
        while Value::from(config.clone()).to_string().len() > MAX_CONFIG_BYTES
            && let Some(services) = config.get_mut("services").and_then(Value::as_object_mut)
            && let Some(name) = services.keys().next_back().cloned()
        {
            services.remove(&name);
            omitted.push(name);
        }
        Ok(ShownConfig {
            project: project.name,
            config,
            omitted,
            warnings: truncate_list(warnings, MAX_WARNINGS),
            refused: refused.map(|error| error.message().to_owned()),
            redacted: redactor.hidden(),
        })
    }
}

/// Bring up or update the compose project of a directory that the operator has allowed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeUp {
    /// Give the absolute path of the folder with the compose file.
    directory: String,
    /// It is the directory's name by default.
    project: Option<ObjectName>,
    /// Writes this text as its compose file first.
    yaml: Option<String>,
    /// Brings up only these.
    #[serde(default)]
    services: Vec<ObjectName>,
    /// Enables these profiles.
    #[serde(default)]
    profiles: Vec<ObjectName>,
    /// Runs so many containers of a service.
    #[serde(default)]
    scale: BTreeMap<String, Bounded<0, 100>>,
    /// Builds images first.
    #[serde(default)]
    build: bool,
    /// Pulls newer images first.
    #[serde(default)]
    pull: bool,
    /// Waits until all are running and healthy.
    #[serde(default)]
    wait: bool,
    /// Ends compose after so long; default 600.
    timeout_seconds: Option<Seconds>,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct UpReport {
    project: String,
    running: usize,
    containers: usize,
    /// The file with `yaml`.
    written: Option<String>,
    /// The end of the program's output.
    output: String,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for ComposeUp {
    const NAME: &'static str = "compose_up";
    // Containers whose configuration has changed are recreated.
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = UpReport;

    async fn call(self, docker: &Docker, call: &Call) -> Result<UpReport, ToolError> {
        docker.policy.permit_destructive()?;
        refuse_hidden(docker, self.yaml.iter().map(|text| ("yaml", &**text)))?;
        let created = match &self.yaml {
            Some(_) => create_directory(docker, &self.directory)?,
            None => None,
        };
        let up = self.up(docker, call).await;
        if let (Err(_), Some(directory)) = (&up, created) {
            // Only if nothing was written.
            let _ = fs::remove_dir(directory);
        }
        up
    }
}

impl ComposeUp {
    async fn up(&self, docker: &Docker, call: &Call) -> Result<UpReport, ToolError> {
        let mut project = ComposeProject::resolve(
            docker,
            call,
            &self.directory,
            self.project.as_ref(),
            self.yaml.as_deref(),
            &self.services,
            &self.profiles,
        )
        .await?;
        let options = UpOptions {
            build: self.build,
            pull: self.pull,
            scale: self.scale.clone(),
        };
        let (is_own, taken) = project.permit(docker, &options).await?;
        // A label would recreate the containers of others.
        project.is_own = is_own;
        let scale = self.scale.iter();
        let scale: Vec<String> = scale
            .map(|(name, copies)| format!("{name}={}", copies.get()))
            .collect();
        let mut arguments: Vec<&str> = Vec::new();
        arguments.extend(self.build.then_some("--build"));
        if self.pull {
            arguments.extend(["--pull", "always"]);
        }
        arguments.extend(scale.iter().flat_map(|scale| ["--scale", &**scale]));
        arguments.extend(self.services.iter().map(ObjectName::as_str));
        let lost = project.losses(docker, call, &arguments).await?;
        let old = self.replaced(&project.file)?;
        let objects = objects(docker, &lost, &taken).await?;
        let losses = (&lost[..], &taken[..], &objects[..], &arguments[..]);
        self.confirm_losses(docker, call, &project, losses, old.as_ref())
            .await?;
        // The user may have taken minutes.
        project.permit(docker, &options).await?;
        let written = match &self.yaml {
            Some(text) => write(&project.file, old.as_ref(), text)?,
            None => String::new(),
        };
        if self.wait {
            arguments.insert(0, "--wait");
        }
        let deadline = Deadline::new(call, self.timeout_seconds);
        let output = project.up(docker, call, &deadline, &arguments).await;
        let output = output.map_err(|error| {
            let text = format!("{}{written}", error.message());
            ToolError::new(error.kind(), text).caused_by(error)
        })?;
        let redactor = project.model.redactor(docker);
        let projects = compose::projects(docker).await?;
        let containers = projects.get(&project.name).map_or(&[][..], Vec::as_slice);
        let running = containers.iter().filter(|at| at.state == "running");
        let yaml = self.yaml.as_ref();
        Ok(UpReport {
            running: running.count(),
            containers: containers.len(),
            written: yaml.map(|_| project.file.to_string_lossy().into_owned()),
            project: project.name,
            output: redactor.text(&output),
            redacted: redactor.hidden(),
        })
    }

    /// The text in the file that `yaml` replaces; `None` if there is no file, or `yaml` does not change it.
    /// Errors when no copy of it can be kept.
    fn replaced(&self, file: &Path) -> Result<Option<Replaced>, ToolError> {
        let Some(new) = &self.yaml else {
            return Ok(None);
        };
        match fs::read(file) {
            Ok(old) if old == new.as_bytes() => Ok(None),
            Ok(old) => Replaced::new(file, old).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let file = file.display();
                let text = format!("{file} cannot be read, so it is not replaced: {error}.");
                Err(ToolError::conflict(text).caused_by(error))
            }
        }
    }

    /// Asks before containers, the compose file or the names of images are replaced.
    async fn confirm_losses(
        &self,
        docker: &Docker,
        call: &Call,
        project: &ComposeProject,
        (lost, taken, objects, arguments): (&[String], &[String], &[Object], &[&str]),
        old: Option<&Replaced>,
    ) -> Result<(), ToolError> {
        let name = &project.name;
        let mut losses = Vec::new();
        if !lost.is_empty() {
            losses.push(format!(
                "Brings up `{name}`: these containers are recreated or removed, and lose the files that they \
                 wrote outside of volumes: {}.",
                lost.join(", ")
            ));
        }
        // The answer counts for these texts only.
        let mut texts = vec![project.model.to_text(false, false), arguments.join(" ")];
        if let (Some(text), Some(old)) = (&self.yaml, old) {
            let (file, copy) = (project.file.display(), old.copy.display());
            losses.push(format!(
                "Overwrites {file}, of which a copy is kept as {copy}."
            ));
            texts.push(text.clone());
            texts.push(String::from_utf8_lossy(&old.text).into_owned());
        }
        if !taken.is_empty() {
            let names = taken.join(", ");
            losses.push(format!("Takes these names from other images: {names}."));
        }
        if !losses.is_empty() && !project.warnings.is_empty() {
            let warnings = project.warnings.join(" ");
            losses.push(format!(
                "Compose warns: {}",
                project.model.redactor(docker).text(&warnings)
            ));
        }
        match losses.is_empty() {
            true => Ok(()),
            false => {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                docker
                    .confirm_all(
                        call,
                        &losses.join(" "),
                        name,
                        (objects, &texts),
                        &self.confirm,
                    )
                    .await
            }
        }
    }
}

/// The containers, and the images, that have these names now.
async fn objects(
    docker: &Docker,
    containers: &[String],
    images: &[String],
) -> Result<Vec<Object>, ToolError> {
    let mut listed = docker.containers(true).await?;
    listed.retain(|at| containers.iter().any(|name| name == at.display_name()));
    let mut objects: Vec<Object> = listed.iter().map(|at| Object::container(&at.id)).collect();
    for name in images {
        let name = ImageName::new(name)?;
        let image = docker.try_image(&name).await?;
        objects.extend(image.map(|image| Object::image(&name, &image.id)));
    }
    Ok(objects)
}

/// Creates the directory of a new project in an allowed one; `None` if it exists.
fn create_directory(docker: &Docker, path: &str) -> Result<Option<PathBuf>, ToolError> {
    let missing = match docker.policy.directory(path) {
        Err(error) if error.kind() == ToolErrorKind::NotFound => error,
        found => return found.map(|_| None),
    };
    let path = Path::new(path);
    let (Some(parent), Some(Component::Normal(name))) =
        (path.parent(), path.components().next_back())
    else {
        return Err(missing);
    };
    let directory = docker
        .policy
        .directory(&parent.to_string_lossy())?
        .join(name);
    match fs::create_dir(&directory) {
        Ok(()) => Ok(Some(directory)),
        Err(_) => Err(missing),
    }
}

/// Most copies of a compose file.
const MAX_COPIES: usize = 100;

/// The text of a compose file that another one replaces.
struct Replaced {
    text: Vec<u8>,
    /// The file that keeps it: a new one, or one with this very text.
    copy: PathBuf,
}

impl Replaced {
    /// Chooses the first name of `FILE.bak`, `FILE.bak.1` … that is free: what is there may be all that is left of a
    /// text that somebody wrote.
    fn new(file: &Path, text: Vec<u8>) -> Result<Self, ToolError> {
        let shown = file.display();
        let names = (0..MAX_COPIES).map(|number| match number {
            0 => PathBuf::from(format!("{shown}.bak")),
            number => PathBuf::from(format!("{shown}.bak.{number}")),
        });
        let is_fit = |copy: &PathBuf| match copy.symlink_metadata() {
            Ok(found) => found.is_file() && fs::read(copy).is_ok_and(|kept| kept == text),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let copy = names.into_iter().find(is_fit).ok_or_else(|| {
            ToolError::conflict(format!(
                "There are {MAX_COPIES} copies of {shown} already ({shown}.bak …), and none is overwritten. Nothing \
                 was done: let the user move or remove some, or change the file where it is."
            ))
        })?;
        Ok(Self { text, copy })
    }

    /// Errors when another file has the name of the copy by now.
    fn keep(&self, permissions: Option<&Permissions>) -> io::Result<()> {
        match write_new(&self.copy, &self.text, permissions) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && fs::read(&self.copy)? == self.text =>
            {
                Ok(())
            }
            written => written,
        }
    }
}

/// Writes the compose file, of which a copy stays if it was another text. Returns what to say of that if the project
/// does not come up.
/// Errors when the file is not the `old` one any more, or cannot be written.
fn write(file: &Path, old: Option<&Replaced>, text: &str) -> Result<String, ToolError> {
    let (shown, now) = (file.display(), fs::read(file).ok());
    if now.as_deref() == Some(text.as_bytes()) {
        return Ok(String::new());
    }
    if now.as_ref() != old.map(|old| &old.text) {
        return Err(ToolError::conflict(format!(
            "{shown} was changed meanwhile. Nothing was done: call again."
        )));
    }
    // Its texts may hold secrets, which others cannot read so far.
    let permissions = fs::metadata(file).ok().map(|found| found.permissions());
    let permissions = permissions.as_ref();
    let written = old.map_or(Ok(()), |old| old.keep(permissions));
    let written = written.and_then(|()| replace(file, text.as_bytes(), permissions));
    written.map_err(|error| {
        ToolError::invalid_argument("The compose file cannot be written.").caused_by(error)
    })?;
    Ok(match old {
        Some(old) => {
            let copy = old.copy.display();
            format!(" {shown} has the new text; the one before is in {copy}.")
        }
        None => format!(" {shown} was written."),
    })
}

/// Writes a file that does not exist yet.
fn write_new(file: &Path, content: &[u8], permissions: Option<&Permissions>) -> io::Result<()> {
    let mut new = fs::OpenOptions::new();
    let mut new = new.write(true).create_new(true).open(file)?;
    let permitted = permissions.map_or(Ok(()), |these| new.set_permissions(these.clone()));
    permitted
        .and_then(|()| io::Write::write_all(&mut new, content))
        .inspect_err(|_| _ = fs::remove_file(file))
}

/// Writes a file whole or not at all, in place of a link as well.
fn replace(file: &Path, content: &[u8], permissions: Option<&Permissions>) -> io::Result<()> {
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&new);
    write_new(&new, content, permissions)
        .and_then(|()| fs::rename(&new, file))
        .inspect_err(|_| _ = fs::remove_file(&new))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn copy_of_a_compose_file_never_overwrites_a_file() {
        let id = format!("mcp-compose-{}", std::process::id());
        let folder = std::env::temp_dir().join(id);
        fs::create_dir(&folder).unwrap();
        let file = folder.join("compose.yaml");
        fs::write(&file, "original").unwrap();
        fs::write(folder.join("compose.yaml.bak"), "of the user").unwrap();
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(&file, private.clone()).unwrap();
        for text in ["a", "b", "a", "b"] {
            let old = Replaced::new(&file, fs::read(&file).unwrap()).unwrap();
            write(&file, Some(&old), text).unwrap();
        }
        let read = |end: &str| fs::read_to_string(folder.join(format!("compose.yaml{end}")));
        for (end, expected) in [
            ("", "b"),
            (".bak", "of the user"),
            (".bak.1", "original"),
            (".bak.2", "a"),
            (".bak.3", "b"),
        ] {
            assert_eq!(read(end).unwrap(), expected, "{end}");
        }
        assert!(read(".bak.4").is_err());
        for end in ["", ".bak.1", ".bak.3"] {
            let found = fs::metadata(folder.join(format!("compose.yaml{end}"))).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, private.mode(), "{end}");
        }
        // A name that was free when it was chosen.
        let old = Replaced::new(&file, b"b".to_vec()).unwrap();
        let old = Replaced {
            copy: folder.join("compose.yaml.bak"),
            ..old
        };
        assert!(write(&file, Some(&old), "c").is_err());
        assert_eq!(read("").unwrap(), "b");
        for number in 4..MAX_COPIES {
            fs::write(folder.join(format!("compose.yaml.bak.{number}")), "").unwrap();
        }
        let full = Replaced::new(&file, b"new".to_vec()).err().unwrap();
        assert!(full.message().contains("100 copies"), "{full}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
