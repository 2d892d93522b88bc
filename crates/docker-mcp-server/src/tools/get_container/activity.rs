//! The processes of a container, and the files that it has changed.

use mcp_core::tool::ToolError;
use serde::Deserialize;
use upstream::redact::Redactor;
use upstream::text::truncate_list;

use crate::docker::Docker;
use crate::engine::{ContainerDetails, Path};

/// Processes and files that are shown, and the longest line in characters.
const MAX_ITEMS: usize = 60;
const MAX_TEXT: usize = 200;

/// The engine's list of processes.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Top {
    titles: Vec<String>,
    processes: Vec<Vec<String>>,
}

/// A changed file, with its index in `CAD`: changed, added, deleted.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change {
    path: String,
    kind: usize,
}

/// The processes, in the form of `ps`.
pub(super) async fn processes(
    docker: &Docker,
    container: &ContainerDetails,
    redactor: &Redactor,
) -> Result<Vec<String>, ToolError> {
    let path = Path::container(&container.container_id()?, "/top");
    let Top { titles, processes } = docker.engine.get(path).await?;
    let mut lines = vec![titles.join(" ")];
    let shown = processes.iter().map(|process| {
        let line = redactor.command(process.iter().map(String::as_str));
        line.chars().take(MAX_TEXT).collect()
    });
    lines.extend(truncate_list(shown, MAX_ITEMS));
    Ok(lines)
}

/// The changed files, in the form of `docker diff`.
pub(super) async fn changes(
    docker: &Docker,
    container: &ContainerDetails,
    redactor: &Redactor,
) -> Result<Vec<String>, ToolError> {
    let path = Path::container(&container.container_id()?, "/changes");
    // The engine writes null for an empty list.
    let changes: Option<Vec<Change>> = docker.engine.get(path).await?;
    let changes = changes.unwrap_or_default();
    let lines = changes.iter().map(|change| {
        let kind = ["C", "A", "D"].get(change.kind).unwrap_or(&"?");
        let line = redactor.text(&format!("{kind} {}", change.path));
        line.chars().take(MAX_TEXT).collect()
    });
    Ok(truncate_list(lines, MAX_ITEMS))
}
