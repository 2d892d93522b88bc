//! `retry_execution`

use std::time::Duration;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::find;
use crate::api::{Execution, ExecutionFilter, N8nFailure as _, Status};
use crate::id::Id;
use crate::run::Run;
use crate::service::N8n;

/// Below what clients and servers commonly allow a call: 30 s.
const WAIT: Duration = Duration::from_secs(20);
/// How many executions are looked at for one that n8n did not name in time.
const LOOK_AT: u32 = 20;

/// Runs a failed execution again from the node that failed, and waits for its end; `running` is
/// followed with get_execution.
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
            return Err(refused(&failed));
        }
        if let Some(workflow) = &failed.workflow_id {
            let workflow = n8n.api.workflow(workflow).await?;
            n8n.api.policy.check_start(&workflow)?;
        }
        let retried = n8n
            .api
            .retry(&failed.id, self.use_current_workflow, WAIT)
            .await;
        match retried {
            Ok(execution) => Ok(Run::from_execution(execution).redacted(&n8n.redactor)),
            Err(failure) if failure.is_conflict() => Err(refused(&failed)),
            // It runs: it is looked for, and not started again.
            Err(failure) if failure.is_timeout() => Ok(match newest(n8n, &failed).await {
                Some(execution) => Run::from_execution(execution).redacted(&n8n.redactor),
                None => Run::running(None)
                    .noting("The retry was started and has not ended; list_executions shows it."),
            }),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn refused(execution: &Execution) -> ToolError {
    let id = &execution.id;
    let text = if execution.status.has_ended() {
        format!(
            "Execution {id} did not fail, or keeps no data to go on from: n8n retries only those. run_workflow runs the workflow anew."
        )
    } else {
        format!("Execution {id} has not ended. Follow it with get_execution, or stop it.")
    };
    ToolError::conflict(text)
}

/// The newest execution that repeats `failed`.
async fn newest(n8n: &N8n, failed: &Execution) -> Option<Execution> {
    for status in [Some("running"), None] {
        let filter = ExecutionFilter {
            workflow: failed.workflow_id.clone(),
            status,
            limit: LOOK_AT,
            ..ExecutionFilter::default()
        };
        let page = n8n.api.executions::<Execution>(&filter).await.ok()?;
        let repeats = |one: &Execution| one.repeats(&failed.id);
        if let Some(found) = page.data.into_iter().find(repeats) {
            return Some(found);
        }
    }
    None
}
