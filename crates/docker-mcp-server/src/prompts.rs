//! Prompts for people: the steps of an experienced operator, filled with the current state of the
//! engine.

use mcp_core::prompt::{Prompt, PromptMessage, PromptSet};
use mcp_core::tool::{Call, Content, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::compose;
use crate::diagnose;
use crate::docker::Docker;
use crate::engine::ContainerName;
use crate::resources::{container_names, project_names};

const MAX_ROWS: usize = 50;

/// All prompts, in the order in which they are listed.
pub(crate) fn all() -> PromptSet<Docker> {
    PromptSet::new()
        .with::<TroubleshootContainer>()
        .with::<ReviewComposeProject>()
        .with::<CleanUp>()
}

/// Find out why a container does not work, and how to fix it.
#[derive(Deserialize, JsonSchema)]
struct TroubleshootContainer {
    /// Name or id of the container.
    container: ContainerName,
}

impl Prompt for TroubleshootContainer {
    const NAME: &'static str = "troubleshoot_container";
    type Service = Docker;

    async fn messages(self, docker: &Docker, _: &Call) -> Result<Vec<PromptMessage>, ToolError> {
        let container = self.container;
        let diagnosis = diagnose::diagnose(docker, &container, None).await?;
        let diagnosis = serde_json::to_string_pretty(&diagnosis).unwrap_or_default();
        Ok(from_user(format!(
            include_str!("prompts/troubleshoot_container.txt"),
            container = container,
            diagnosis = diagnosis
        )))
    }

    async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
        container_names(docker, value).await
    }
}

/// Review a running compose project: health, configuration, security, robustness.
#[derive(Deserialize, JsonSchema)]
struct ReviewComposeProject {
    /// Name of the compose project.
    project: String,
}

impl Prompt for ReviewComposeProject {
    const NAME: &'static str = "review_compose_project";
    type Service = Docker;

    async fn messages(self, docker: &Docker, _: &Call) -> Result<Vec<PromptMessage>, ToolError> {
        let mut projects = compose::projects(docker).await?;
        let Some(own) = projects.remove(&self.project) else {
            return Err(ToolError::not_found(format!(
                "There is no compose project with that name. {}",
                compose::known_projects(docker, projects.keys())
            )));
        };
        let redactor = docker.redactor();
        let rows = own.iter().map(|container| {
            let service = Some(compose::service(container)).filter(|name| !name.is_empty());
            redactor.text(&format!(
                "- service {}: container `{}`, image {}, {}",
                service.unwrap_or("?"),
                container.display_name(),
                container.image,
                container.status
            ))
        });
        Ok(from_user(format!(
            include_str!("prompts/review_compose_project.txt"),
            project = redactor.text(&self.project),
            rows = list(rows)
        )))
    }

    async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
        project_names(docker, value).await
    }
}

/// Free disk space on the engine's host without losing anything that is still needed.
#[derive(Deserialize, JsonSchema)]
struct CleanUp {}

impl Prompt for CleanUp {
    const NAME: &'static str = "clean_up_safely";
    type Service = Docker;

    async fn messages(self, docker: &Docker, _: &Call) -> Result<Vec<PromptMessage>, ToolError> {
        let mut stopped = docker.containers(true).await?;
        let all = stopped.len();
        stopped.retain(|at| matches!(&*at.state, "exited" | "stopped" | "dead" | "created"));
        let redactor = docker.redactor();
        let rows = stopped.iter().map(|at| {
            let (name, image, status) = (at.display_name(), &at.image, &at.status);
            redactor.text(&format!("- `{name}`, image {image}, {status}"))
        });
        Ok(from_user(format!(
            include_str!("prompts/clean_up_safely.txt"),
            count = stopped.len(),
            all = all,
            rows = list(rows)
        )))
    }
}

fn from_user(text: String) -> Vec<PromptMessage> {
    vec![PromptMessage::user(Content::text(text))]
}

/// The first rows, and a last one that says how many others there are.
fn list(rows: impl ExactSizeIterator<Item = String>) -> String {
    let more = rows.len().saturating_sub(MAX_ROWS);
    let more = (more > 0).then(|| format!("- and {more} more: list_containers shows them"));
    rows.take(MAX_ROWS)
        .chain(more)
        .collect::<Vec<_>>()
        .join("\n")
}
