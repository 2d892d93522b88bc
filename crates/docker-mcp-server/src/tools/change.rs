//! What start, stop and restart have in common: how a container was, how it is, and whether it
//! stays that way.

use std::time::Duration;

use super::prelude::*;
use crate::engine::LogQuery;
use crate::exit_code;
use crate::log;
use crate::unix_time;

/// When a started container is looked at, counted from one look to the next: one that has nothing
/// to run, or nothing that works, has mostly ended by then.
const LOOKS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(700),
];
/// How much of the log explains an early end.
const LAST_LINES: u32 = 10;
const LAST_BYTES: usize = 2_000;

/// A container before and after a change.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Change {
    container: String,
    /// State before.
    before: String,
    /// State now.
    after: String,
    changed: bool,
    exit_code: Option<i64>,
    note: Option<String>,
    /// Its last lines, where it ended at once.
    log: Option<String>,
}

impl Change {
    /// `container` is as it was.
    pub(super) fn none(container: &ContainerDetails) -> Self {
        Self::between(container, container)
    }

    /// From `before` to `after`, with nothing said about it yet.
    pub(super) fn between(before: &ContainerDetails, after: &ContainerDetails) -> Self {
        let (was, is) = (&before.state, &after.state);
        Self {
            container: after.display_name().to_owned(),
            before: was.status.clone(),
            after: is.status.clone(),
            changed: was.status != is.status || was.started_at != is.started_at,
            exit_code: None,
            note: None,
            log: None,
        }
    }

    /// `container` was stopped and, as it was created to be, removed.
    pub(super) fn removed(container: &ContainerDetails) -> Self {
        Self {
            after: "removed".to_owned(),
            changed: true,
            ..Self::none(container)
        }
    }

    /// Adds what the caller should know.
    pub(super) fn with_note(mut self, note: String) -> Self {
        self.note = Some(note);
        self
    }

    /// State now, exit code, note and log.
    pub(super) fn into_parts(self) -> (String, Option<i64>, Option<String>, Option<String>) {
        (self.after, self.exit_code, self.note, self.log)
    }

    /// Adds the exit code of the last run.
    pub(super) fn with_exit_code(mut self, code: i64) -> Self {
        self.exit_code = Some(code);
        self
    }
}

/// How a container is now, after a change.
pub(super) async fn compare(
    docker: &Docker,
    before: &ContainerDetails,
) -> Result<Change, ToolError> {
    let now = docker.container_now(&before.container_id()?).await?;
    Ok(match now {
        Some(after) => Change::between(before, &after),
        None => Change::removed(before),
    })
}

/// Looks at a container that was just started until it has ended or has run for a second, and says
/// so when it has ended.
pub(super) async fn settle(
    docker: &Docker,
    before: &ContainerDetails,
) -> Result<Change, ToolError> {
    let id = before.container_id()?;
    let mut seen: Option<ContainerDetails> = None;
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        let Some(now) = docker.container_now(&id).await? else {
            let note = "It ended at once and was removed, as it was created to be (--rm).";
            return Ok(Change::removed(before).with_note(note.to_owned()));
        };
        // A crash loop may be running at the instant of looking, but not in the same run.
        let runs = now.state.runs();
        let same_run = seen.is_none_or(|seen| seen.state.started_at == now.state.started_at);
        if !runs || !same_run {
            let change = Change::between(before, &now);
            return Ok(early_end(docker, change, &now).await);
        }
        seen = Some(now);
    }
    Ok(Change::between(before, seen.as_ref().unwrap_or(before)))
}

async fn early_end(docker: &Docker, change: Change, after: &ContainerDetails) -> Change {
    let state = &after.state;
    let meaning = exit_code::meaning(state.exit_code, state.oom_killed);
    let code = state.exit_code;
    let next = match (code, &*state.status) {
        (_, "restarting" | "running") => {
            "Its restart policy starts it again and again: stop it, or mend the cause."
        }
        (0, _) => "It may be a job that is done.",
        _ => "get_container_logs shows more.",
    };
    let log = last_lines(docker, after).await;
    Change { log, ..change }
        .with_exit_code(code)
        .with_note(format!(
            "It ended at once with exit code {code} ({meaning}). {next}"
        ))
}

/// The end of the log; `None` where there is none. What explains an error must not become one.
async fn last_lines(docker: &Docker, container: &ContainerDetails) -> Option<String> {
    let query = LogQuery {
        // Only of this run.
        since: unix_time::from_timestamp(&container.state.started_at).unwrap_or(0),
        ..LogQuery::newest(LAST_LINES)
    };
    let (id, tty) = (container.container_id().ok()?, container.config.tty);
    let limit = Duration::from_secs(2);
    let read = log::read(&docker.engine, &id, query, tty, LAST_BYTES, limit);
    let log = read.await.ok()?;
    let text = docker.redactor().text(&log.text);
    (!text.trim().is_empty()).then_some(text)
}
