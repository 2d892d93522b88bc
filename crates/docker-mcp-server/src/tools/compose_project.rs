//! A compose project in a directory, resolved by the compose program and judged by the policy: every
//! tool that reads compose files does so through here.

mod cli;

use std::path::{Path, PathBuf};

use self::cli::Compose;
use super::deadline::Deadline;
use super::prelude::*;
use crate::compose::{self, ComposeModel, UpOptions};

/// Bytes of the program's output in an answer, which contains it twice.
const MAX_BYTES: usize = 12_000;

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
    compose: Compose,
}

impl ComposeProject {
    /// Lets the compose program resolve the project. Changes nothing.
    /// Errors when the policy does not allow one of its files, or they are not valid.
    pub(super) async fn resolve(
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        request: &ProjectRequest<'_>,
    ) -> Result<Self, ToolError> {
        let directory = docker.policy.directory(request.directory)?;
        let name = match request.project {
            Some(name) => name.as_str().to_lowercase(),
            None => default_name(&directory),
        };
        ObjectName::new(&name).map_err(|_| ToolError::invalid_argument("Give a project name."))?;
        let files = compose::project_files(&docker.policy, &directory, request.yaml)?;
        let mut names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        if request.yaml.is_some() {
            names[0] = "-".into();
        }
        let path = directory.to_string_lossy();
        let mut arguments = vec!["-p", &*name, "--project-directory", &*path];
        arguments.extend(names.iter().flat_map(|file| ["-f", &**file]));
        let profiles = request.profiles.iter();
        arguments.extend(profiles.flat_map(|profile| ["--profile", profile.as_str()]));
        arguments.extend(["config", "--format", "json"]);
        arguments.extend(request.services.iter().map(ObjectName::as_str));
        let compose = Compose::find(docker, directory.clone()).await?;
        let input = request.yaml.map(str::to_owned);
        let config = compose
            .run(docker, call, deadline, &arguments, input)
            .await?;
        if !config.succeeded {
            return Err(failed(docker, &name, "is not valid", &config.text));
        }
        Ok(Self {
            model: ComposeModel::parse(&config.stdout)?,
            name,
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
        options: UpOptions,
    ) -> Result<(bool, Vec<String>), ToolError> {
        let is_own = compose::is_own(docker, &self.name).await?;
        Ok((is_own, self.model.check(docker, options).await?))
    }

    /// Runs `up` with what was checked; returns the end of its output.
    pub(super) async fn up(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        arguments: &[&str],
    ) -> Result<String, ToolError> {
        let path = self.directory.to_string_lossy();
        let up = ["-p", &self.name, "--project-directory", &path, "-f", "-"];
        let arguments = [&up[..], &["up", "-d"], arguments].concat();
        let model = Some(self.model.to_text());
        let compose = &self.compose;
        let result = compose.run(docker, call, deadline, &arguments, model);
        let result = result.await?;
        match result.succeeded {
            true => Ok(newest_lines(&result.text, MAX_BYTES).to_owned()),
            false => Err(failed(docker, &self.name, "did not come up", &result.text)),
        }
    }
}

fn failed(docker: &Docker, project: &str, what: &str, output: &str) -> ToolError {
    let output = docker.redactor().text(output);
    let output = newest_lines(&output, MAX_BYTES);
    ToolError::upstream(format!("`{project}` {what}. Compose said:\n{output}"))
}

/// The project name that compose derives from a directory.
fn default_name(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_lowercase();
    let legal = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let name: String = name.chars().filter(legal).collect();
    name.trim_start_matches(['-', '_']).to_owned()
}
