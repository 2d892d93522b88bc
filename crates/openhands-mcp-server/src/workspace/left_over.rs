//! Processes that a stopped task has left in its directory.

use upstream::text::{one_line, visible};

use super::changes::{has_own_directory, task_within};
use crate::api::{AgentServer, Conversation, shell_quoted};

const SCRIPT: &str = concat!(include_str!("terminals.sh"), include_str!("left_over.sh"));
const MAX_NAMES_CHARS: usize = 200;

/// The processes that the commands of a task have left.
pub(crate) enum LeftOver {
    Nothing,
    /// Processes with these names were ended.
    Ended(String),
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
    // A task that has ended may have left processes there, too.
    let ends =
        has_own_directory(task) && matches!(task_within(server, task, false).await, Ok(None));
    let ends = if ends { "1" } else { "" };
    let script = format!(
        "dir={} ends={ends}
{SCRIPT}",
        shell_quoted(directory)
    );
    match server.run_script(&script).await {
        Ok(printed) if printed.exit_code == Some(0) => {
            let lines = printed.text().lines();
            let lines = lines.filter_map(|line| line.split_once(' '));
            let (ended, left): (Vec<_>, Vec<_>) = lines.partition(|(id, _)| *id == "ended");
            let names = |found: Vec<(&str, &str)>| {
                let names: Vec<_> = found.into_iter().map(|(_, name)| name).collect();
                one_line(&visible(&names.join(", ")), MAX_NAMES_CHARS)
            };
            match (ended.is_empty(), left.is_empty()) {
                (_, false) => LeftOver::Processes(names(left)),
                (false, true) => LeftOver::Ended(names(ended)),
                (true, true) => LeftOver::Nothing,
            }
        }
        _ => LeftOver::Unknown,
    }
}
