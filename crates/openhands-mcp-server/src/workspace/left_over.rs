//! Processes that a stopped task has left in its directory.

use upstream::text::{one_line, visible};

use super::changes::{MAX_PAGES, has_own_directory, is_below, neighbours};
use crate::api::{AgentServer, Conversation, shell_quoted};

const SCRIPT: &str = include_str!("left_over.sh");
const MAX_NAMES_CHARS: usize = 200;

/// The processes that the commands of a task have left.
pub(crate) enum LeftOver {
    Nothing,
    /// Processes with these names.
    Processes(String),
    /// The machine of the agent server does not tell.
    Unknown,
}

/// Waits a moment until no command of a stopped task runs in its directory. In a directory of its own the commands that
/// do not end are killed, unless another task has worked there, too. What a person runs there in a terminal is no
/// command of the task.
pub(crate) async fn left_over(server: &AgentServer, task: &Conversation) -> LeftOver {
    let directory = &task.workspace.working_dir;
    if directory.is_empty() {
        return LeftOver::Unknown;
    }
    let ends = has_own_directory(task) && !is_shared(server, task).await;
    let ends = if ends { "1" } else { "" };
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

/// Returns true if another task may have processes in the directory, or in one below it: also a task that has ended.
async fn is_shared(server: &AgentServer, task: &Conversation) -> bool {
    let others = neighbours(server, task, MAX_PAGES).await;
    let own = &task.workspace.working_dir;
    let is_there = |other: &Conversation| is_below(&other.workspace.working_dir, own);
    others.map_or(true, |others| others.iter().any(is_there))
}
