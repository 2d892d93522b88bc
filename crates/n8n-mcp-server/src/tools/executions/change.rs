//! Retries, resumes, stops and deletes executions.

use std::time::Duration;

use n8n_workflow::{Execution, Status, Workflow};

use super::find;
use crate::api::{ExecutionFilter, N8nFailure as _};
use crate::run::{OutputSelection, Resumption, Run, RunStatus};
use crate::tools::prelude::*;

/// Below the common limit of clients and servers for a call: 30 s.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Executions among which a retry is searched whose id n8n did not return in time.
const MAX_RECENT_EXECUTIONS: u32 = 20;

/// Runs a failed execution again from the node that failed, and waits for its end; if `running`,
/// call get_execution.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryExecution {
    /// Of a run that failed; from list_executions.
    execution_id: Id,
    /// With the workflow as it is now instead of as it was.
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
        if let Some(workflow) = &failed.workflow_id {
            let workflow = n8n.api.workflow(workflow).await?;
            n8n.api.policy.check_start(&workflow)?;
        }
        let retried = n8n
            .api
            .retry(&failed.id, self.use_current_workflow, RETRY_TIMEOUT)
            .await;
        match retried {
            Ok(execution) => {
                Ok(Run::from_execution(execution)
                    .shown(&n8n.redactor(), &OutputSelection::default()))
            }
            Err(failure) if failure.is_conflict() => Err(not_retryable(&failed)),
            // It runs: look for it, and do not start it again.
            Err(failure) if failure.is_timeout() => Ok(match find_retry(n8n, &failed).await {
                Some(execution) => Run::from_execution(execution)
                    .shown(&n8n.redactor(), &OutputSelection::default()),
                None => Run::running(None).with_note(
                    "The retry was started and has not ended; list_executions shows it.",
                ),
            }),
            Err(failure) => Err(failure.into()),
        }
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

/// The newest retry of `failed`.
async fn find_retry(n8n: &N8n, failed: &Execution) -> Option<Execution> {
    let workflow = failed.workflow_id.as_ref();
    for status in [Some("running"), None] {
        let filter = ExecutionFilter::newest(workflow, status, MAX_RECENT_EXECUTIONS);
        let (page, _) = n8n.api.executions(&filter).await.ok()?;
        let is_retry = |one: &Execution| one.retry_of.as_ref() == Some(&failed.id);
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
    /// Of a run that waits; from list_executions or run_workflow.
    execution_id: Id,
    /// For the node that waits: body or query of its webhook, or fields of its form.
    #[serde(default)]
    parameters: Map<String, Value>,
    /// The id again, once the user has agreed.
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
        let was = execution.workflow_data.as_deref();
        let was: Option<Workflow> = was.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let now = match &execution.workflow_id {
            Some(workflow) => Some(n8n.api.workflow(workflow).await?),
            None => None,
        };
        if let Some(now) = &now {
            n8n.api.policy.check_start(now)?;
        }
        let workflow = was.or(now).unwrap_or_default();
        let resumption = Resumption::new(&execution, &workflow, self.parameters, n8n)?;
        // What waits for a request is often an approval.
        let effect = format!(
            "Continues execution {id} of workflow {:?} behind {:?}, where it waits for somebody's \
             decision or data.",
            workflow.name, resumption.node
        );
        call.confirm(&effect, &id, self.confirm.as_deref()).await?;
        let run = resumption.send(n8n, call, RESUME_WAIT).await?;
        Ok(run.shown(&n8n.redactor(), &OutputSelection::default()))
    }
}

/// Stops an execution that runs or waits; what its nodes have done stays done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopExecution {
    /// From list_executions or run_workflow.
    execution_id: Id,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    execution_id: String,
    status: RunStatus,
}

impl Tool for StopExecution {
    const NAME: &'static str = "stop_execution";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Stopped;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Stopped, ToolError> {
        let before = find(n8n, &self.execution_id, false).await?;
        if before.status.has_ended() {
            return Err(ToolError::conflict(format!(
                "Execution {} has ended already; nothing was stopped.",
                before.id
            )));
        }
        n8n.api.stop(&before.id).await?;
        // It may have ended by itself in the meantime.
        let after = find(n8n, &before.id, false).await?;
        Ok(Stopped {
            execution_id: after.id.to_string(),
            status: after.status.into(),
        })
    }
}

/// Deletes an execution and all its data.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteExecution {
    /// From list_executions.
    execution_id: Id,
    /// The id again, once the user has agreed.
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
                "Execution {} has not ended. Stop it first.",
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
