//! `compose_up`.

mod cli;

use super::build_image::DEFAULT_SECONDS;
use super::prelude::*;
use crate::compose::{self, ComposeModel};

/// Bytes of the program's output in an answer, which contains it twice.
const MAX_BYTES: usize = 12_000;

/// Bring up the compose project of a directory that the operator has allowed. Needs the compose
/// program where this server runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeUp {
    /// Absolute, with the compose file.
    directory: String,
    /// Default: the directory's name.
    project: Option<ObjectName>,
    /// Default: all.
    #[serde(default)]
    services: Vec<ObjectName>,
    /// Build images first.
    #[serde(default)]
    build: bool,
    /// Until compose is ended; default 600.
    timeout_seconds: Option<Bounded<1, 3600>>,
    /// The project's name again, if it is up and the user cannot be asked.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct UpReport {
    project: String,
    running: usize,
    containers: usize,
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
        let directory = docker.policy.directory(&self.directory)?;
        let project = match &self.project {
            Some(name) => name.as_str().to_lowercase(),
            None => default_name(&directory.to_string_lossy()),
        };
        let name = ObjectName::new(&project)
            .map_err(|_| ToolError::invalid_argument("Give a project name."))?;
        if let Some(existing) = compose::projects(docker).await?.get(&project) {
            let loss = format!(
                "Brings up `{project}`: of its {} containers, those whose configuration has \
                 changed are recreated and lose the files that they wrote outside of volumes.",
                existing.len()
            );
            docker.confirm(call, &loss, &project, &self.confirm).await?;
        }
        let is_own = compose::is_own(docker, &project).await?;
        let seconds = self.timeout_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let limit = Duration::from_secs(seconds.into());
        call.extend_timeout(limit);
        let files = compose::project_files(&docker.policy, &directory)?;
        let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        let services = self.services.iter().map(ObjectName::as_str);
        let mut arguments = vec!["-p", name.as_str()];
        arguments.extend(files.iter().flat_map(|file| ["-f", &**file]));
        arguments.extend(["config", "--format", "json"]);
        arguments.extend(services.clone());
        let config = cli::run(docker, &directory, &arguments, None, limit, call).await?;
        if !config.succeeded {
            return Err(failed(docker, &project, &config.text));
        }
        let mut model = ComposeModel::parse(&config.stdout)?;
        model.check(docker, self.build).await?;
        // A label would recreate the containers of others.
        if is_own {
            model.mark();
        }
        let path = directory.to_string_lossy();
        let mut arguments = vec!["-p", name.as_str(), "--project-directory", &path, "-f", "-"];
        arguments.extend(["up", "-d"]);
        if self.build {
            arguments.push("--build");
        }
        arguments.extend(services);
        let model = Some(model.to_text());
        let result = cli::run(docker, &directory, &arguments, model, limit, call).await?;
        let redactor = docker.redactor();
        let text = redactor.text(&result.text);
        let output = newest_lines(&text, MAX_BYTES).to_owned();
        if !result.succeeded {
            return Err(failed(docker, &project, &result.text));
        }
        let projects = compose::projects(docker).await?;
        let containers = projects.get(&project).map_or(&[][..], Vec::as_slice);
        let running = containers.iter().filter(|at| at.state == "running");
        Ok(UpReport {
            running: running.count(),
            containers: containers.len(),
            project,
            output,
            redacted: redactor.hidden(),
        })
    }
}

fn failed(docker: &Docker, project: &str, output: &str) -> ToolError {
    let output = docker.redactor().text(output);
    let output = newest_lines(&output, MAX_BYTES);
    ToolError::upstream(format!(
        "`{project}` did not come up. Compose said:\n{output}"
    ))
}

/// The project name that compose derives from a directory.
fn default_name(directory: &str) -> String {
    let name = directory.rsplit('/').next().unwrap_or_default();
    let name = name.to_lowercase();
    let legal = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let name: String = name.chars().filter(legal).collect();
    name.trim_start_matches(['-', '_']).to_owned()
}
