//! The processes of a container, and the files that it has changed.

use bollard::models::ChangeType;
use mcp_core::tool::ToolError;
use upstream::redact::Redactor;
use upstream::text::truncate_list;

use crate::docker::Docker;
use crate::engine::ContainerDetails;

/// Processes and files that are shown, and the longest line in characters.
const MAX_ITEMS: usize = 60;
const MAX_TEXT: usize = 200;

/// The processes, in the form of `ps`.
pub(super) async fn processes(
    docker: &Docker,
    container: &ContainerDetails,
    redactor: &Redactor,
) -> Result<Vec<String>, ToolError> {
    let id = container.container_id()?;
    let engine = &docker.engine;
    let top = engine.call(|engine| async move { engine.top_processes(id.as_str(), None).await });
    let top = top.await?;
    let processes = top.processes.unwrap_or_default();
    let mut lines = vec![top.titles.unwrap_or_default().join(" ")];
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
    let id = container.container_id()?;
    let engine = &docker.engine;
    let changes = engine.call(|engine| async move { engine.container_changes(id.as_str()).await });
    // The engine writes null for an empty list.
    let changes = changes.await?.unwrap_or_default();
    let lines = changes.iter().map(|change| {
        let kind = match change.kind {
            ChangeType::_0 => 'C',
            ChangeType::_1 => 'A',
            ChangeType::_2 => 'D',
        };
        let line = redactor.text(&format!("{kind} {}", change.path));
        line.chars().take(MAX_TEXT).collect()
    });
    Ok(truncate_list(lines, MAX_ITEMS))
}
