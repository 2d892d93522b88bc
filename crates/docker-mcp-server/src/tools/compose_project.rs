//! A compose project in a directory, resolved by the compose program and judged by the policy: every
//! tool that reads compose files does so through here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::deadline::{Deadline, Seconds};
use super::prelude::*;
use crate::cli::{self, BuildDirectory, Cli, Output, Run};
use crate::compose::{self, ComposeModel, UpOptions};
use crate::policy::Policy;

/// Bytes of the program's output in an answer, which contains it twice.
const MAX_BYTES: usize = 12_000;
/// Seconds to resolve a project, which needs less than one.
const MAX_CONFIG_SECONDS: u32 = 10;
/// The names of a project's file, in the order in which compose looks for them.
const NAMES: [&str; 4] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
];

/// The project that a call names.
pub(super) struct ProjectRequest<'a> {
    pub(super) directory: &'a str,
    pub(super) project: Option<&'a ObjectName>,
    pub(super) yaml: Option<&'a str>,
    pub(super) services: &'a [ObjectName],
    pub(super) profiles: &'a [ObjectName],
}

/// A resolved project.
pub(super) struct ComposeProject {
    pub(super) name: String,
    directory: PathBuf,
    /// The first compose file, which may not exist yet.
    pub(super) file: PathBuf,
    pub(super) model: ComposeModel,
    /// Marks what is created as this server's.
    pub(super) is_own: bool,
    compose: Cli,
}

impl ComposeProject {
    /// Lets the compose program resolve the project, without access to other files than those of the allowed
    /// directories. Changes nothing.
    /// Errors when it is not valid.
    pub(super) async fn resolve(
        docker: &Docker,
        call: &Call,
        request: &ProjectRequest<'_>,
    ) -> Result<Self, ToolError> {
        let directory = docker.policy.directory(request.directory)?;
        let files = files(&docker.policy, &directory, request.yaml.is_some())?;
        let mut names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        if request.yaml.is_some() {
            names[0] = "-".into();
        }
        let path = directory.to_string_lossy();
        let mut arguments = vec!["--project-directory", &*path];
        let name = request.project.map(|name| name.as_str().to_lowercase());
        arguments.extend(name.iter().flat_map(|name| ["-p", &**name]));
        arguments.extend(names.iter().flat_map(|file| ["-f", &**file]));
        let profiles = request.profiles.iter();
        arguments.extend(profiles.flat_map(|profile| ["--profile", profile.as_str()]));
        arguments.extend(["config", "--format", "json"]);
        arguments.extend(request.services.iter().map(ObjectName::as_str));
        let compose = Cli::compose(docker, directory.clone()).await?;
        let roots = docker.policy.directories();
        let run = Run {
            arguments: &arguments,
            input: request.yaml.map(str::to_owned),
            is_quiet: true,
            // Nothing of the host is protected from containers with all privileges.
            confined_to: (!docker.policy.is_privileged()).then_some(roots),
        };
        let deadline = Deadline::new(call, Seconds::new(MAX_CONFIG_SECONDS));
        let redactor = docker.redactor();
        let config = compose.run(docker, call, &deadline, &redactor, run).await?;
        if !config.succeeded {
            let what = "The project is not valid";
            return Err(cli::failed(&redactor, what, &config, MAX_BYTES));
        }
        let model = ComposeModel::parse(&config.stdout)?;
        Ok(Self {
            name: model.name()?,
            model,
            is_own: false,
            file: files[0].clone(),
            directory,
            compose,
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

    /// The containers that `up` would replace or remove, as the program tells them.
    pub(super) async fn losses(
        &self,
        docker: &Docker,
        call: &Call,
        arguments: &[&str],
    ) -> Result<Vec<String>, ToolError> {
        let deadline = Deadline::new(call, Seconds::new(6 * MAX_CONFIG_SECONDS));
        // Started services would be waited for.
        let arguments = [&["--dry-run", "--no-start"], arguments].concat();
        let output = self.run_up(docker, call, &deadline, &arguments).await?;
        let lost = output.text.lines().filter_map(told);
        let is_lost = |state: &str| matches!(state, "Recreate" | "Removing" | "Removed");
        let lost = lost.filter(|(kind, _, state)| *kind == "Container" && is_lost(state));
        let lost: BTreeSet<String> = lost.map(|(_, name, _)| name.to_owned()).collect();
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
        let result = self.run_up(docker, call, deadline, &arguments).await?;
        Ok(newest_lines(&result.text, MAX_BYTES).to_owned())
    }

    async fn run_up(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        arguments: &[&str],
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
            input: Some(self.model.to_text(self.is_own)),
            ..Run::default()
        };
        let redactor = docker.redactor();
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
    let compose = Cli::compose(docker, PathBuf::from("/")).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_by_lines() {
        for (line, expected) in [
            (
                " DRY-RUN MODE -  Container shop-web-1  Recreate",
                Some(("Container", "shop-web-1", "Recreate")),
            ),
            (
                " Volume shop_data Removed",
                Some(("Volume", "shop_data", "Removed")),
            ),
            (" DRY-RUN MODE -    build service app", None),
            ("Container", None),
        ] {
            assert_eq!(told(line), expected, "{line}");
        }
    }
}
