//! What goes on in a container: its processes, and the files that it has changed.

use mcp_core::tool::ToolError;
use serde::Deserialize;

use crate::Docker;
use crate::engine::{Details, Path};
use crate::redact::Redactor;
use crate::tools::change;

/// Processes and files that are shown, and the longest line of them in characters.
const MAX_ITEMS: usize = 60;
const MAX_TEXT: usize = 200;

/// As `ps` shows them.
pub(super) async fn processes(
    docker: &Docker,
    container: &Details,
    redactor: &mut Redactor,
) -> Result<Vec<String>, ToolError> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Top {
        titles: Vec<String>,
        processes: Vec<Vec<String>>,
    }
    let path = Path::to("/containers")
        .id(&change::id(container)?)
        .then("/top");
    let top = docker.engine.read_json(path).await;
    let top: Top = top.map_err(|failure| docker.engine.explain(failure))?;
    let mut lines = vec![top.titles.join(" ")];
    for process in top.processes.iter().take(MAX_ITEMS) {
        let line = redactor.command(process.iter().map(String::as_str));
        lines.push(line.chars().take(MAX_TEXT).collect());
    }
    Ok(bounded(lines, top.processes.len()))
}

/// As `docker diff` shows them.
pub(super) async fn changes(
    docker: &Docker,
    container: &Details,
    redactor: &mut Redactor,
) -> Result<Vec<String>, ToolError> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Change {
        path: String,
        kind: u8,
    }
    let path = Path::to("/containers")
        .id(&change::id(container)?)
        .then("/changes");
    let changes = docker.engine.read_json(path).await;
    // Null is how the engine says that there are none.
    let changes: Option<Vec<Change>> = changes.map_err(|failure| docker.engine.explain(failure))?;
    let changes = changes.unwrap_or_default();
    let lines = changes.iter().take(MAX_ITEMS).map(|change| {
        let kind = match change.kind {
            0 => 'C',
            1 => 'A',
            _ => 'D',
        };
        let line = redactor.text(&format!("{kind} {}", change.path));
        line.chars().take(MAX_TEXT).collect()
    });
    Ok(bounded(lines.collect(), changes.len()))
}

fn bounded(mut lines: Vec<String>, count: usize) -> Vec<String> {
    if count > MAX_ITEMS {
        lines.push(format!("and {} more", count - MAX_ITEMS));
    }
    lines
}
