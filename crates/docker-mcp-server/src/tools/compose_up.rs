//! `compose_up`.

mod cli;

use super::prelude::*;
use crate::compose;

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
        let mut arguments = vec!["-p", name.as_str(), "up", "-d"];
        if self.build {
            arguments.push("--build");
        }
        arguments.extend(self.services.iter().map(ObjectName::as_str));
        let result = cli::run(docker, &directory, &arguments, call).await?;
        let redactor = docker.redactor();
        let text = redactor.text(&result.text);
        let output = newest_lines(&text, MAX_BYTES).to_owned();
        if !result.succeeded {
            let text = format!("`{project}` did not come up. Compose said:\n{output}");
            return Err(ToolError::upstream(text));
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

/// The project name that compose derives from a directory.
fn default_name(directory: &str) -> String {
    let name = directory.rsplit('/').next().unwrap_or_default();
    let name = name.to_lowercase();
    let legal = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let name: String = name.chars().filter(legal).collect();
    name.trim_start_matches(['-', '_']).to_owned()
}
