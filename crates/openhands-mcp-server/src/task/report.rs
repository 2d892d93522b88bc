//! The report about a task, which most tools return.

use std::borrow::Cow;
use std::time::Duration;

use mcp_core::tool::ToolError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::time::{Instant, timeout_at};
use upstream::text::one_line;

use super::follow::ObservedTask;
use super::follow::{MAX_RESULT_BYTES, TaskSnapshot};
use super::permission::Confirmation;
use crate::OpenHands;
use crate::api::tags::{ConversationTags, tag};
use crate::api::{AgentServer, ApiFailure, ApiResult, TaskId};
use crate::git::ChangesQuery;
use crate::state::{TaskOutcome, TaskStatus};
use crate::workspace::read_changes;

/// The time that a report leaves for its way to the caller, and the shortest wait for a verify command.
const CHECK_RESERVE: Duration = Duration::from_secs(1);
const MIN_CHECK_WAIT: Duration = Duration::from_secs(3);
/// Bytes of the list of changed files.
const MAX_CHANGED_BYTES: usize = 900;
const MAX_MODEL_CHARS: usize = 80;

/// The state of a task and its results.
#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// For the other tools.
    pub(crate) task_id: TaskId,
    pub(crate) status: TaskStatus,
    /// Agent's last message.
    pub(crate) result: Option<String>,
    // Where the rest of the result starts; undescribed, since it is in the schema of each tool.
    pub(crate) next_offset: Option<u64>,
    /// Output of its last command.
    pub(crate) last_output: Option<String>,
    /// Of that command.
    exit_code: Option<i64>,
    /// The verify command succeeded.
    pub(crate) verified: Option<bool>,
    pub(crate) verify_exit_code: Option<i32>,
    /// Its last lines.
    pub(crate) verify_output: Option<String>,
    /// Actions taken so far.
    steps: Option<u64>,
    /// The last of them.
    last_action: Option<String>,
    /// The actions that wait.
    // Its schema would be in that of each tool.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(crate) confirmation: Option<Confirmation>,
    /// US dollars.
    cost: Option<f64>,
    /// Read and written.
    tokens: Option<u64>,
    model: Option<String>,
    /// Time of its runs.
    seconds: Option<u64>,
    /// Its directory on the machine of the agent.
    directory: Option<String>,
    /// Branch there.
    branch: Option<String>,
    /// Such as "M src/a.py": added, modified, deleted, renamed.
    changed_files: Option<Vec<String>>,
    /// Gaps and doubts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// Why it is not done.
    pub(crate) error: Option<String>,
    /// Next step.
    pub(crate) next: Option<String>,
}

/// A report of which the schema names only what is always there: the whole one is that of get_task_result, and would be
/// repeated for each tool.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct ShortReport(pub(crate) Report);

impl JsonSchema for ShortReport {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ShortReport".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "task_id": generator.subschema_for::<TaskId>(),
                "status": generator.subschema_for::<TaskStatus>(),
            },
            "required": ["task_id", "status"],
        })
    }
}

impl Report {
    /// The report after a wait. Never an error: the task exists, and an error would lose its id.
    pub(crate) async fn new(
        service: &OpenHands,
        id: TaskId,
        seen: ObservedTask,
        (until, answer_by): (Instant, Instant),
    ) -> Self {
        let until = until.max(Instant::now() + MIN_CHECK_WAIT);
        let until = until.min(answer_by - CHECK_RESERVE);
        let mut report = match &seen.task {
            Some(task) => Self::from_snapshot(task),
            None => Self::from_id(id),
        };
        if let Some(task) = &seen.task
            && task.status().is_settled()
        {
            let added = async {
                let server = service.servers.for_task(id).await?;
                report.add_results(&server, task, MAX_RESULT_BYTES).await?;
                report.add_check(service, &server, task, until).await
            };
            let added = timeout_at(answer_by, added).await;
            if !matches!(added, Ok(Ok(_))) {
                let failure = added.map(Result::err);
                tracing::warn!(task = %id, ?failure, "cannot read the result");
                report.next = Some("Call get_task_result for the result.".into());
            }
        }
        // The call has started the task, so that much is known.
        let failure = seen
            .failure
            .filter(|failure| !matches!(failure, ApiFailure::NoAnswer));
        if let Some(failure) = failure {
            report.set_outcome(match failure.sandbox_problem() {
                Some(problem) => TaskOutcome::from_sandbox_problem(problem),
                None => TaskOutcome::unreadable(ToolError::from(failure).message()),
            });
        }
        report
    }

    /// The state of a task without its results.
    pub(crate) fn from_snapshot(task: &TaskSnapshot) -> Self {
        let mut report = Self::from_id(task.id);
        report.steps = Some(task.steps);
        report.last_action = task.last_action();
        let pending = task.pending.as_ref();
        report.confirmation = pending.map(|pending| pending.at_offset(0));
        // OpenHands reports 0 for a model without a known price.
        let stats = &task.conversation.stats;
        report.cost = Some(stats.cost()).filter(|cost| *cost > 0.0);
        report.tokens = Some(stats.tokens()).filter(|tokens| *tokens > 0);
        report.model = stats.model().map(|model| one_line(model, MAX_MODEL_CHARS));
        report.set_outcome(task.outcome.clone());
        let tags = ConversationTags::from_task(&task.conversation);
        // Behind an app server there are no tags.
        report.seconds = match tags.seconds() {
            Some(_) => Some(tags.seconds_used(task.now)),
            None => task.conversation.seconds(),
        };
        if let Some(names) = tags.get(tag::DEAD_SERVERS) {
            report.warnings.push(format!(
                "These MCP servers did not answer when the task was created, so the agent may lack \
                 their tools: {names}."
            ));
        }
        if let Some(gaps) = tags.get(tag::GAPS) {
            report
                .warnings
                .push(format!("Parts of the repository are not there: {gaps}."));
        }
        report.warnings.extend(undelivered(&tags));
        report
    }

    /// The report about a task whose sandbox does not run.
    ///
    /// # Errors
    /// The failure has another reason.
    pub(crate) fn from_failure(id: TaskId, failure: ApiFailure) -> Result<Self, ToolError> {
        let Some(problem) = failure.sandbox_problem() else {
            return Err(failure.into());
        };
        let mut report = Self::from_id(id);
        report.set_outcome(TaskOutcome::from_sandbox_problem(problem));
        Ok(report)
    }

    /// Adds the results so far, even if the task has not ended.
    pub(crate) async fn add_results(
        &mut self,
        server: &AgentServer,
        task: &TaskSnapshot,
        max_result: usize,
    ) -> ApiResult<()> {
        let query = ChangesQuery::default();
        let (output, changed) = tokio::join!(
            task.read_output(server),
            read_changes(server, &task.conversation, &query)
        );
        let output = output?;
        (self.result, self.next_offset) = output.shown_result(max_result);
        self.last_output = output.last_output();
        self.exit_code = output.exit_code;
        let directory = &task.conversation.workspace.working_dir;
        self.directory = Some(directory.clone()).filter(|path| !path.is_empty());
        let tags = &task.conversation.tags;
        self.branch = tags.get(tag::BRANCH).map(str::to_owned);
        match changed {
            Ok(changed) => {
                let lines = changed.lines(0, MAX_CHANGED_BYTES);
                self.changed_files = (changed.count > 0).then_some(lines);
                let warnings = changed.warnings.into_iter();
                self.warnings.extend(warnings.map(str::to_owned));
            }
            Err(ApiFailure::Git(reason)) => self.warnings.push(reason),
            Err(failure) => return Err(failure),
        }
        // The output says more than the action.
        self.last_action = None;
        Ok(())
    }

    /// The report about a task that was started and not polled yet.
    fn from_id(id: TaskId) -> Self {
        Self {
            task_id: id,
            next: Some("Call wait_task for its end, get_task_result for its result.".into()),
            ..Self::default()
        }
    }

    fn set_outcome(&mut self, outcome: TaskOutcome) {
        self.status = outcome.status;
        self.error = outcome.error;
        self.next = outcome.next.map(str::to_owned);
    }
}

/// The warning for a task whose callback_url does not have the result.
fn undelivered(tags: &ConversationTags) -> Option<String> {
    let reason = tags.delivery()?.err()?;
    Some(format!(
        "callback_url did not take the result ({reason}). It is not tried again."
    ))
}
