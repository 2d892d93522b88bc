//! Processes that a stopped task has left in its directory.

use upstream::text::{one_line, visible};

use crate::api::{AgentServer, Conversation, shell_quoted};

const SCRIPT: &str = include_str!("left_over.sh");
const MAX_NAMES_CHARS: usize = 200;

/// What is left of the commands of a task.
pub(crate) enum LeftOver {
    Nothing,
    /// Processes with these names.
    Processes(String),
    /// The machine of the agent server does not tell.
    Unknown,
}

/// Waits a moment until no command of a stopped task runs in its directory. In a directory of its own the commands that
/// do not end are killed: others may use another one.
pub(crate) async fn left_over(server: &AgentServer, task: &Conversation) -> LeftOver {
    let directory = &task.workspace.working_dir;
    if directory.is_empty() {
        return LeftOver::Unknown;
    }
    let name = directory.rsplit('/').next().unwrap_or_default();
    let ends = if name.starts_with(&task.id.to_string()) {
        "1"
    } else {
        ""
    };
    let script = format!(
        "dir={} ends={ends}
{SCRIPT}",
        shell_quoted(directory)
    );
    match server.run_script(&script).await {
        Ok(printed) if printed.exit_code == Some(0) => {
            let lines = printed.text().lines();
            let names: Vec<_> = lines.filter_map(|line| line.split_once(' ')).collect();
            let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
            match names.is_empty() {
                true => LeftOver::Nothing,
                false => {
                    LeftOver::Processes(one_line(&visible(&names.join(", ")), MAX_NAMES_CHARS))
                }
            }
        }
        _ => LeftOver::Unknown,
    }
}
