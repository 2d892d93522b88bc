//! `retry_execution`

use std::time::Duration;

use n8n_workflow::{Execution, Status};

use super::find;
use crate::api::{ExecutionFilter, N8nFailure as _};
use crate::run::{OutputSelection, Run};
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
        let page = n8n.api.executions::<Execution>(&filter).await.ok()?;
        let is_retry = |one: &Execution| one.retried_id().as_deref() == Some(failed.id.as_str());
        if let Some(found) = page.data.into_iter().find(is_retry) {
            return Some(found);
        }
    }
    None
}
