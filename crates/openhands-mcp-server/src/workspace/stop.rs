//! The commands of a task that is stopped: its command line, which is held, since an interrupt ends one command, and the
//! shell goes on with the rest of the line if that command has handled it; and the processes that it has left.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use upstream::poll::Backoff;
use upstream::text::{one_line, visible};
use upstream::time::parse_timestamp;

use super::changes::{has_own_directory, task_within};
use crate::api::{
    AgentServer, ApiFailure, ApiResult, Conversation, Execution, TaskId, shell_quoted,
};

const TERMINALS: &str = include_str!("terminals.sh");
const RELEASE: &str = include_str!("release.sh");
const HOLD: &str = include_str!("hold.sh");

/// The time of the script, after which the interrupt is sent without it.
const HOLD_TIME: Duration = Duration::from_secs(10);
/// The time in which a failed interrupt is sent again. The held commands wait longer.
const REPEAT_TIME: Duration = Duration::from_secs(6);
const REPEAT_BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));

/// Sends the interrupt to the agent of a task, and ends the command that it runs without the rest of its line. Goes on
/// if the caller does not wait for it. Returns true if the rest of the line may have run.
///
/// # Errors
/// The interrupt fails.
pub(crate) async fn interrupt(server: &AgentServer, id: TaskId) -> ApiResult<bool> {
    let server = server.clone();
    let interrupted = tokio::spawn(async move { interrupt_held(&server, id).await });
    interrupted.await.unwrap_or(Err(ApiFailure::NoAnswer))
}

async fn interrupt_held(server: &AgentServer, id: TaskId) -> ApiResult<bool> {
    let mut pause = None;
    let held = match timeout(HOLD_TIME, hold(server, id, &mut pause)).await {
        Ok(Ok(held)) => held,
        held => {
            tracing::warn!(task = %id, ?held, "cannot hold the command line of a task");
            None
        }
    };
    let interrupted = interrupt_repeatedly(server, id).await;
    // A late pause would stop the next run.
    if let Some(pause) = pause {
        let _ = pause.await;
    }
    let Some(held) = held else {
        return interrupted.map(|()| true);
    };
    if let Err(failure) = interrupted {
        // The agent may go on when its command ends.
        let script = format!("held={}\n{RELEASE}let_go\n", shell_quoted(&held));
        if let Err(failure) = server.run_script(&script).await {
            tracing::warn!(task = %id, ?failure, "held commands go on later");
        }
        return Err(failure);
    }
    Ok(release(server, &held).await)
}

/// Sends the interrupt until the agent server confirms it, or says that the agent has stopped.
async fn interrupt_repeatedly(server: &AgentServer, id: TaskId) -> ApiResult<()> {
    let (began, mut delays) = (Instant::now(), REPEAT_BACKOFF.delays());
    let mut is_repeated = false;
    loop {
        let failure = match server.interrupt(id).await {
            Err(failure) if failure.may_be_repeated() => failure,
            sent => return sent,
        };
        let task = server.conversation(id).await;
        // An idle one may be about to start.
        let is_stopped =
            |execution: Execution| execution.is_stopped() && execution != Execution::Idle;
        if matches!(&task, Ok(task) if is_stopped(task.execution_status)) {
            return Ok(());
        }
        // Once in any case, unless the time is over because there was no answer.
        is_repeated |= failure.is_timeout();
        if is_repeated && began.elapsed() > REPEAT_TIME {
            return Err(failure);
        }
        is_repeated = true;
        delays.sleep().await;
    }
}

/// Holds the commands of the task; the processes are those for [`release`]. `None` if they cannot be told from those of
/// another task that runs in the same directory. A command that ends while it is held is the end of a step: the `pause`
/// keeps the agent from the next one until the interrupt arrives.
async fn hold(
    server: &AgentServer,
    id: TaskId,
    pause: &mut Option<JoinHandle<()>>,
) -> ApiResult<Option<String>> {
    let running = server.count_running();
    let (task, running) = tokio::try_join!(server.conversation(id), running)?;
    if task.execution_status != Execution::Running {
        return Ok(Some(String::new()));
    }
    let pausing = server.clone();
    *pause = Some(tokio::spawn(async move {
        if let Err(failure) = pausing.pause(id).await {
            tracing::debug!(task = %id, ?failure, "cannot pause a task before its interrupt");
        }
    }));
    let directory = &task.workspace.working_dir;
    let is_shared =
        |other: &Conversation| other.id != id && other.workspace.working_dir == *directory;
    // The list may take long.
    let running = match running {
        0 | 1 => Vec::new(),
        _ => server.running().await?,
    };
    let from = parse_timestamp(&task.created_at);
    let (Some(from), false) = (from, running.iter().any(is_shared)) else {
        return Ok(None);
    };
    let script = format!(
        "dir={} from={}\n{TERMINALS}{RELEASE}{HOLD}",
        shell_quoted(directory),
        from.as_second()
    );
    let printed = server.run_script(&script).await?;
    let held = printed.text().split_ascii_whitespace();
    Ok((printed.exit_code == Some(0)).then(|| held.collect::<Vec<_>>().join(" ")))
}

/// Ends the commands that are held. Returns true if the rest of the line may have run.
async fn release(server: &AgentServer, held: &str) -> bool {
    if held.is_empty() {
        return false;
    }
    let script = format!("held={}\n{RELEASE}release\n", shell_quoted(held));
    match server.run_script(&script).await {
        Ok(printed) if printed.exit_code == Some(0) => false,
        printed => {
            tracing::warn!(held, ?printed, "a command line may have gone on");
            true
        }
    }
}

const LEFT_OVER: &str = include_str!("left_over.sh");
/// Characters of the names of processes.
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
        "dir={} ends={ends}\n{TERMINALS}{LEFT_OVER}",
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
