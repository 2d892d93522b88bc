//! The state of a container before and after a change, and whether a started container stays up.

use super::prelude::*;
use crate::docker::redactor_of;
use crate::engine::log::{LogQuery, shorten};
use crate::engine::{Engine, exit_code};
use crate::unix_time;

/// The delays between the inspections of a started container: one that has nothing to run, or a
/// command that fails, has mostly exited by then.
const INSPECTION_DELAYS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(700),
];
/// Lines and bytes of the log that explain an early exit, and the timeout for reading them.
const MAX_LOG_LINES: u32 = 10;
const MAX_LOG_BYTES: usize = 2_000;
const LOG_TIMEOUT: Duration = Duration::from_secs(2);

/// A container before and after a change.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct StateChange {
    pub(super) container: String,
    /// State before.
    pub(super) before: String,
    /// State now.
    pub(super) after: String,
    pub(super) changed: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) note: Option<String>,
    /// Its last lines, if it ended at once.
    pub(super) log: Option<String>,
}

impl StateChange {
    /// No change.
    pub(super) fn none(container: &ContainerDetails) -> Self {
        Self::between(container, container)
    }

    /// The change from `before` to `after`, without a note.
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

    /// `container` was removed.
    pub(super) fn removed(container: &ContainerDetails) -> Self {
        Self {
            after: "removed".to_owned(),
            changed: true,
            ..Self::none(container)
        }
    }

    pub(super) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// Returns the change of a container since `before`.
pub(super) async fn since(
    docker: &Docker,
    before: &ContainerDetails,
) -> Result<StateChange, ToolError> {
    let now = docker.container_now(&before.container_id()?).await?;
    Ok(match now {
        Some(after) => StateChange::between(before, &after),
        None => StateChange::removed(before),
    })
}

/// Inspects a started container until it has exited or has run for a second, and reports an early
/// exit.
pub(super) async fn watch_early_exit(
    docker: &Docker,
    before: &ContainerDetails,
) -> Result<StateChange, ToolError> {
    let id = before.container_id()?;
    let mut seen: Option<ContainerDetails> = None;
    for delay in INSPECTION_DELAYS {
        tokio::time::sleep(delay).await;
        let Some(now) = docker.container_now(&id).await? else {
            let note = "It ended at once and was removed, because it was created with --rm.";
            return Ok(StateChange::removed(before).with_note(note));
        };
        // In a crash loop it may run at every inspection, but not in the same run.
        let same_run = seen.is_none_or(|seen| seen.state.started_at == now.state.started_at);
        if !now.state.runs() || !same_run {
            return Ok(early_exit(docker, before, &now).await);
        }
        seen = Some(now);
    }
    Ok(StateChange::between(
        before,
        seen.as_ref().unwrap_or(before),
    ))
}

async fn early_exit(
    docker: &Docker,
    before: &ContainerDetails,
    after: &ContainerDetails,
) -> StateChange {
    let state = &after.state;
    let meaning = exit_code::meaning(state.exit_code, state.oom_killed);
    let code = state.exit_code;
    let next = match (code, &*state.status) {
        (_, "restarting" | "running") => {
            "Its restart policy starts it again and again: stop it, or fix the cause."
        }
        (0, _) => "It may be a job that is done.",
        _ => "get_container_logs shows more.",
    };
    let note = format!("It ended at once with exit code {code} ({meaning}). {next}");
    StateChange {
        exit_code: Some(code),
        note: Some(note),
        log: last_lines(&docker.engine, docker.redact, after).await,
        ..StateChange::between(before, after)
    }
}

/// The end of the log, if there is one. Best effort: errors are ignored.
pub(super) async fn last_lines(
    engine: &Engine,
    redact: bool,
    container: &ContainerDetails,
) -> Option<String> {
    let query = LogQuery {
        // Only of this run.
        since: (
            unix_time::from_timestamp(&container.state.started_at).unwrap_or(0),
            0,
        ),
        ..LogQuery::newest(MAX_LOG_LINES)
    };
    let read = engine.read_log(container, query, MAX_LOG_BYTES, LOG_TIMEOUT, None);
    let text = redactor_of(redact, container).text(&read.await.ok()?.text());
    (!text.trim().is_empty()).then(|| shorten(&text, None))
}
