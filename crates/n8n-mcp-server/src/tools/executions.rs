//! The toolset `executions`: list, explain, retry, resume, stop and delete executions, and read their files.
//! `get_execution` is in the default toolset.

use std::time::Duration;

use n8n_workflow::trace::{NodeFailure, NodeRow, Trace, find_failure, node_rows};
use n8n_workflow::{Execution, Status};

use crate::api::{ExecutionFilter, after, is_conflict};
use crate::outcome::{OutputSelection, Run, RunStatus};
use crate::run::{Resumption, newest};
use crate::tools::prelude::*;

pub(crate) use explain::explain;

mod explain;
mod file;
mod list;

pub(crate) fn executions() -> Toolset<N8n> {
    Toolset::new()
        .with::<list::ListExecutions>()
        .with::<explain::ExplainExecution>()
        .with::<file::GetExecutionFile>()
        .with::<RetryExecution>()
        .with::<ResumeExecution>()
        .with::<StopExecution>()
        .with::<DeleteExecution>()
}

pub(crate) async fn find(n8n: &N8n, id: &Id, with_data: bool) -> Result<Execution, ToolError> {
    let found = n8n.api.execution(id, with_data).await?;
    let execution = found.ok_or_else(|| {
        ToolError::not_found(format!(
            "n8n has no execution {id}. It may have been deleted, or the workflow does not save its \
             executions. list_executions shows those that it has."
        ))
    })?;
    n8n.api.admit_execution(&execution).await?;
    Ok(execution)
}

const DEFAULT_SUMMARY_ITEMS: u32 = 2;
const DEFAULT_FULL_ITEMS: u32 = 50;

/// Shows the status of one execution, with its output or error once it has ended; on request what each node
/// did.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetExecution {
    /// run_workflow returns the id.
    execution_id: Id,
    /// result (the default) shows no nodes, preview nodes without data, summary their first items, full all items,
    /// error the failed node and its input.
    #[serde(default)]
    view: View,
    /// Show only these nodes.
    #[serde(default)]
    nodes: Vec<String>,
    /// Show this many items of each node, or of the output.
    items: Option<Bounded<0, 1_000>>,
    /// Show only these members of the output's items.
    #[serde(default)]
    fields: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum View {
    #[default]
    Result,
    Preview,
    Summary,
    Full,
    Error,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExecutionDetails {
    #[serde(flatten)]
    run: Run,
    workflow_id: Option<String>,
    started_at: Option<String>,
    stopped_at: Option<String>,
    /// The nodes are in the order in which they ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeRow>,
    failed: Option<NodeFailure>,
    /// Items were left out or shortened: ask for single nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl Tool for GetExecution {
    const NAME: &'static str = "get_execution";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = ExecutionDetails;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<ExecutionDetails, ToolError> {
        let execution = find(n8n, &self.execution_id, true).await?;
        let shows_nodes = self.view != View::Result || !self.nodes.is_empty();
        let trace = shows_nodes.then(|| Trace::read(execution.data.as_deref()));
        if let Some(trace) = &trace
            && let Some(unknown) = self.nodes.iter().find(|node| !trace.has(node))
        {
            return Err(ToolError::invalid_argument(format!(
                "`nodes` names {unknown:?}, which did not run in this execution. These nodes ran: \
                 {}.",
                trace.names().join(", ")
            )));
        }
        let output = OutputSelection {
            items: self.items.map(Bounded::get),
            fields: self.fields.clone(),
        };
        let mut shown = ExecutionDetails {
            workflow_id: execution.workflow_id.as_ref().map(Id::to_string),
            started_at: execution.started_at.clone(),
            stopped_at: execution.stopped_at.clone(),
            nodes: Vec::new(),
            failed: None,
            cut: false,
            run: Run::from_execution(execution).shown(&n8n.redactor(), &output),
        };
        let Some(trace) = trace else {
            return Ok(shown);
        };
        // The nodes below show it in detail.
        shown.run.drop_output();
        if self.view == View::Error {
            shown.failed = find_failure(&trace, &n8n.redactor());
            if self.nodes.is_empty() {
                return Ok(shown);
            }
        }
        let items = self.items() as usize;
        (shown.nodes, shown.cut) = node_rows(&trace, &self.nodes, items, &n8n.redactor());
        Ok(shown)
    }
}

impl GetExecution {
    fn items(&self) -> u32 {
        let default = match self.view {
            View::Preview => return 0,
            View::Summary => DEFAULT_SUMMARY_ITEMS,
            View::Result | View::Full | View::Error => DEFAULT_FULL_ITEMS,
        };
        self.items.map_or(default, Bounded::get)
    }
}

/// Below the common limit of clients and servers for a call: 30 s.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Executions among which a retry is searched whose id n8n did not return in time.
const MAX_RECENT_EXECUTIONS: u32 = 20;

/// Runs a failed execution again from the node that failed, and waits for its end; if `running`,
/// call get_execution.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryExecution {
    /// list_executions shows the id of a run that failed.
    execution_id: Id,
    /// Use the workflow as it is now, also what is not published, instead of as it was.
    #[serde(default)]
    use_current_workflow: bool,
}

impl Tool for RetryExecution {
    const NAME: &'static str = "retry_execution";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Run;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Run, ToolError> {
        let failed = find(n8n, &self.execution_id, false).await?;
        if !matches!(
            failed.status,
            Status::Error | Status::Crashed | Status::Canceled | Status::Unknown
        ) {
            return Err(not_retryable(&failed));
        }
        if let Some(workflow) = n8n.api.workflow_of(&failed).await? {
            n8n.api.policy.check_start(&workflow)?;
        }
        let newest = match &failed.workflow_id {
            Some(workflow) => newest(&n8n.api, workflow).await.ok(),
            None => None,
        };
        let retried = n8n
            .api
            .retry(&failed.id, self.use_current_workflow, RETRY_TIMEOUT)
            .await;
        let execution = match retried {
            Ok(execution) => execution,
            Err(failure) if is_conflict(&failure) => return Err(not_retryable(&failed)),
            // It may run: look for it, and do not start it again.
            Err(failure) if failure.is_ambiguous() => {
                let found = find_retry(n8n, &failed, newest).await;
                found.ok_or_else(|| ToolError::from(failure))?
            }
            Err(failure) => return Err(failure.into()),
        };
        Ok(Run::from_execution(execution).shown(&n8n.redactor(), &OutputSelection::default()))
    }
}

fn not_retryable(execution: &Execution) -> ToolError {
    let id = &execution.id;
    ToolError::conflict(if execution.status.has_ended() {
        format!(
            "Execution {id} did not fail, or has no data to continue from: n8n retries only those. \
             run_workflow runs the workflow from its start."
        )
    } else {
        format!("Execution {id} has not ended. Follow it with get_execution, or stop it.")
    })
}

/// The newest retry of `failed` that has begun after the execution with the number `after`.
async fn find_retry(n8n: &N8n, failed: &Execution, after: Option<u64>) -> Option<Execution> {
    let workflow = failed.workflow_id.as_ref();
    for status in [Some("running"), None] {
        let filter = ExecutionFilter::newest(workflow, status, MAX_RECENT_EXECUTIONS);
        let page = n8n.api.executions(&filter).await.ok()?;
        let is_retry =
            |one: &Execution| one.retry_of.as_ref() == Some(&failed.id) && one.id.number() > after;
        if let Some(found) = page.data.into_iter().find(is_retry) {
            return Some(found);
        }
    }
    None
}

/// Below the common limit of clients and servers for a call: 30 s.
const RESUME_WAIT: Duration = Duration::from_secs(20);

/// Continues an execution that waits for a request or for a form, once the user has agreed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeExecution {
    /// list_executions and run_workflow show the id of a run that waits.
    execution_id: Id,
    /// The node that waits receives these: body or query of its webhook, or fields of its form.
    #[serde(default)]
    parameters: Map<String, Value>,
    /// Pass the value that the refused call names, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for ResumeExecution {
    const NAME: &'static str = "resume_execution";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Run;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Run, ToolError> {
        let execution = find(n8n, &self.execution_id, true).await?;
        let id = execution.id.to_string();
        if execution.status != Status::Waiting {
            return Err(ToolError::conflict(format!(
                "Execution {id} does not wait. get_execution shows its status."
            )));
        }
        let now = n8n.api.workflow_of(&execution).await?;
        if let Some(now) = &now {
            n8n.api.policy.check_start(now)?;
        }
        let workflow = execution.workflow().or(now).ok_or_else(|| {
            ToolError::conflict(format!(
                "n8n has no workflow of execution {id}: resume it in n8n."
            ))
        })?;
        if execution.runs_drafts() {
            n8n.api.check_called(&workflow, &workflow.nodes).await?;
        }
        let sent = json!(self.parameters);
        let resumption = Resumption::new(&execution, &workflow, self.parameters, n8n)?;
        let (node, run, _) = &resumption.place;
        // What waits for a request is often an approval.
        let effect = format!(
            "Continues execution {id} of workflow {:?} behind {node:?} (its run {run}), where it waits for \
             somebody's decision or data, with {}.",
            workflow.name,
            n8n.shown(&sent)
        );
        // Behind it the execution may wait for another decision.
        let facts = json!((&resumption.place, sent));
        let confirm = self.confirm.as_deref();
        call.confirm_facts(&effect, &id, &facts, confirm).await?;
        // The answer may have taken long.
        if !resumption.is_due(&find(n8n, &self.execution_id, true).await?) {
            return Err(ToolError::conflict(format!(
                "Execution {id} does not wait there any more; nothing was sent. get_execution shows its status."
            )));
        }
        let run = resumption.send(n8n, call, RESUME_WAIT).await?;
        Ok(run.shown(&n8n.redactor(), &OutputSelection::default()))
    }
}

/// Stops an execution that runs or waits; what its nodes have done stays done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopExecution {
    /// list_executions and run_workflow show the id.
    execution_id: Id,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    execution_id: String,
    status: RunStatus,
}

impl Tool for StopExecution {
    const NAME: &'static str = "stop_execution";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Stopped;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Stopped, ToolError> {
        let before = find(n8n, &self.execution_id, false).await?;
        if before.status.has_ended() {
            return Err(ToolError::conflict(format!(
                "Execution {} has ended already; nothing was stopped. get_execution shows it.",
                before.id
            )));
        }
        n8n.api.stop(&before.id).await?;
        // It may have ended by itself in the meantime.
        let now = find(n8n, &before.id, false).await;
        let now = now.map_err(|error| after("n8n was told to stop it.", error))?;
        Ok(Stopped {
            execution_id: now.id.to_string(),
            status: now.status.into(),
        })
    }
}

/// Deletes an execution and all its data.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteExecution {
    /// list_executions shows the id.
    execution_id: Id,
    /// Repeat the id once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteExecution {
    const NAME: &'static str = "delete_execution";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let execution = find(n8n, &self.execution_id, false).await?;
        if !execution.status.has_ended() {
            return Err(ToolError::conflict(format!(
                "Execution {} has not ended. Stop it first with stop_execution.",
                execution.id
            )));
        }
        let id = execution.id.to_string();
        let loss = format!("Deletes execution {id} of n8n with all of its data.");
        call.confirm(&loss, &id, self.confirm.as_deref()).await?;
        n8n.api.delete_execution(&execution.id).await?;
        Ok(Deleted { deleted: id })
    }
}
