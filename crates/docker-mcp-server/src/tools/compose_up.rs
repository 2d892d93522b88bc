//! `compose_up`.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::compose_project::{ComposeProject, ProjectRequest};
use super::deadline::{Deadline, Seconds};
use super::prelude::*;
use crate::compose::{self, UpOptions};

/// Bring up or update the compose project of a directory that the operator has allowed. Needs the
/// compose program where this server runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeUp {
    /// Absolute, with the compose file.
    directory: String,
    /// Default: the directory's name.
    project: Option<ObjectName>,
    /// Text to write as its compose file first.
    yaml: Option<String>,
    /// Default: all.
    #[serde(default)]
    services: Vec<ObjectName>,
    /// Profiles to enable.
    #[serde(default)]
    profiles: Vec<ObjectName>,
    /// Containers per service.
    #[serde(default)]
    scale: BTreeMap<String, Bounded<0, 100>>,
    /// Build images first.
    #[serde(default)]
    build: bool,
    /// Pull newer images first.
    #[serde(default)]
    pull: bool,
    /// Until all are running and healthy.
    #[serde(default)]
    wait: bool,
    /// Until compose is ended; default 600.
    timeout_seconds: Option<Seconds>,
    /// The project's name again, if something is replaced and the user cannot be asked.
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
        let request = ProjectRequest {
            directory: &self.directory,
            project: self.project.as_ref(),
            yaml: self.yaml.as_deref(),
            services: &self.services,
            profiles: &self.profiles,
        };
        let mut project = ComposeProject::resolve(docker, call, &request).await?;
        let scale = self.scale.iter();
        let options = UpOptions {
            build: self.build,
            pull: self.pull,
            scale: scale
                .map(|(name, copies)| (name.clone(), copies.get()))
                .collect(),
        };
        let (is_own, taken) = project.permit(docker, &options).await?;
        // A label would recreate the containers of others.
        project.is_own = is_own;
        let scale = options.scale.iter();
        let scale: Vec<String> = scale
            .map(|(name, copies)| format!("{name}={copies}"))
            .collect();
        let mut arguments: Vec<&str> = Vec::new();
        arguments.extend(self.build.then_some("--build"));
        if self.pull {
            arguments.extend(["--pull", "always"]);
        }
        arguments.extend(scale.iter().flat_map(|scale| ["--scale", &**scale]));
        arguments.extend(self.services.iter().map(ObjectName::as_str));
        let lost = project.losses(docker, call, &arguments).await?;
        self.confirm_losses(docker, call, &project, &lost, &taken)
            .await?;
        // The user may have taken minutes.
        project.permit(docker, &options).await?;
        if let Some(text) = &self.yaml {
            write(&project.file, text).map_err(|error| {
                ToolError::invalid_argument("The compose file cannot be written.").caused_by(error)
            })?;
        }
        if self.wait {
            arguments.insert(0, "--wait");
        }
        let deadline = Deadline::new(call, self.timeout_seconds);
        let output = project.up(docker, call, &deadline, &arguments).await?;
        let redactor = docker.redactor();
        let projects = compose::projects(docker).await?;
        let containers = projects.get(&project.name).map_or(&[][..], Vec::as_slice);
        let running = containers.iter().filter(|at| at.state == "running");
        let written = self.yaml.as_ref();
        Ok(UpReport {
            running: running.count(),
            containers: containers.len(),
            written: written.map(|_| project.file.to_string_lossy().into_owned()),
            project: project.name,
            output: redactor.text(&output),
            redacted: redactor.hidden(),
        })
    }

    /// Asks before containers, the compose file or the names of images are replaced.
    async fn confirm_losses(
        &self,
        docker: &Docker,
        call: &Call,
        project: &ComposeProject,
        lost: &[String],
        taken: &[String],
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
        let file = fs::read(&project.file).ok();
        if let (Some(text), Some(old)) = (&self.yaml, file)
            && old != text.as_bytes()
        {
            losses.push(format!("Overwrites {}.", project.file.display()));
        }
        if !taken.is_empty() {
            let names = taken.join(", ");
            losses.push(format!("Takes these names from other images: {names}."));
        }
        match losses.is_empty() {
            true => Ok(()),
            false => {
                docker
                    .confirm(call, &losses.join(" "), name, &self.confirm)
                    .await
            }
        }
    }
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

/// Writes a file whole or not at all, in place of a link as well.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&new);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&new)
        .and_then(|mut open| io::Write::write_all(&mut open, text.as_bytes()))
        .and_then(|()| fs::rename(&new, file))
        .inspect_err(|_| _ = fs::remove_file(&new))
}
