//! What callers are told about a task: one shape, whichever tool they use.

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::OpenHands;
use crate::api::Failure;
use crate::changes::{Change, ChangeKind};
use crate::excerpt;
use crate::follow::Seen;
use crate::status::{TaskStatus, Verdict};
use crate::task::Task;
use crate::task_id::TaskId;

/// Bytes of the list of changed files.
const MAX_CHANGED: usize = 900;
/// Bytes of one name in it.
const MAX_NAME: usize = 120;

/// A task as it is, and what it has brought.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// For the other tools.
    pub(crate) task_id: TaskId,
    pub(crate) status: TaskStatus,
    /// What the agent said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
    /// What its last command printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Actions taken so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_action: Option<String>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// Such as "M src/a.py": added, modified, deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_files: Option<Vec<String>>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl Report {
    /// Nobody has looked yet.
    pub(crate) fn started(id: TaskId) -> Self {
        Self {
            task_id: id,
            status: TaskStatus::Running,
            result: None,
            last_output: None,
            steps: None,
            last_action: None,
            cost: None,
            changed_files: None,
            error: None,
            next: Some("Ask wait_task for its end, get_task_result for its result.".into()),
        }
    }

    /// Its state without what it has brought.
    pub(crate) fn state(task: &Task) -> Self {
        let mut report = Self::started(task.id);
        report.steps = Some(task.steps);
        report.last_action = task.last_action();
        // A model without a price costs nothing that could be told.
        report.cost = Some(task.conversation.stats.cost()).filter(|cost| *cost > 0.0);
        report.judge(task.verdict.clone());
        report
    }

    /// A task that cannot be read, for this reason.
    ///
    /// # Errors
    /// It has no state that could be told instead.
    pub(crate) fn unread(id: TaskId, failure: Failure) -> Result<Self, ToolError> {
        let Some(sandbox) = failure.sandbox() else {
            return Err(failure.into());
        };
        let mut report = Self::started(id);
        report.judge(Verdict::in_sandbox(sandbox));
        Ok(report)
    }

    fn judge(&mut self, verdict: Verdict) {
        self.status = verdict.status;
        self.error = verdict.error;
        self.next = verdict.next.map(str::to_owned);
    }
}

impl OpenHands {
    /// What is known of a task after a wait. Never an error: the task exists, and without its id it
    /// would be lost.
    pub(crate) async fn report(&self, id: TaskId, seen: Seen, answer_by: Instant) -> Report {
        let mut report = match &seen.task {
            Some(task) => Report::state(task),
            None => Report::started(id),
        };
        if seen.task.is_none() && self.line.holds(id) {
            report.status = TaskStatus::Queued;
        }
        if let Some(task) = &seen.task
            && task.status().is_settled()
        {
            let brought = timeout_at(answer_by, self.bring(task, &mut report)).await;
            if !matches!(brought, Ok(Ok(()))) {
                let failure = brought.map(Result::err);
                tracing::warn!(task = %id, ?failure, "cannot read the result");
                report.next = Some("Ask get_task_result for the result.".into());
            }
        }
        if let Some(failure) = seen.failure {
            report.judge(match failure.sandbox() {
                Some(sandbox) => Verdict::in_sandbox(sandbox),
                None => Verdict::unseen(ToolError::from(failure).message()),
            });
        }
        report
    }

    /// Adds what the task has brought so far: it need not have ended.
    pub(crate) async fn bring(&self, task: &Task, report: &mut Report) -> Result<(), Failure> {
        let server = self.at(task.id).await?;
        let (outcome, changed) = tokio::try_join!(
            task.outcome(&server),
            self.changed_files(task.id, &task.conversation)
        )?;
        report.result = outcome.result;
        report.last_output = outcome.last_output;
        let (changes, count) = changed;
        report.changed_files = (count > 0).then(|| lines(&changes, count, MAX_CHANGED));
        // Its output says more than its name.
        report.last_action = report.last_action.take().filter(|_| task.is_asking());
        Ok(())
    }
}

/// A change a line, as many as fit into `room` bytes, and how many do not.
pub(crate) fn lines(changes: &[Change], count: usize, mut room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for change in changes {
        let letter = match change.change {
            ChangeKind::Added => 'A',
            ChangeKind::Modified => 'M',
            ChangeKind::Deleted => 'D',
        };
        let line = format!("{letter} {}", excerpt::line(&change.path, MAX_NAME));
        match room.checked_sub(line.len() + 3) {
            Some(left) => room = left,
            None => break,
        }
        lines.push(line);
    }
    if lines.len() < count {
        lines.push(format!("… and {} more", count - lines.len()));
    }
    lines
}
