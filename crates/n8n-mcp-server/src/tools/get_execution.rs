//! `get_execution`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::N8n;
use crate::id::Id;
use crate::run::Run;

/// Status of one execution, with its output or error once it has ended.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetExecution {
    /// From run_workflow.
    execution_id: Id,
}

impl Tool for GetExecution {
    const NAME: &'static str = "get_execution";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Run;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Run, ToolError> {
        match n8n.api.execution(&self.execution_id, true).await {
            Ok(Some(execution)) => Ok(Run::of(execution)),
            Ok(None) => Err(ToolError::not_found(format!(
                "n8n has no execution {}. It may have been deleted, or the workflow does not save \
                 its executions.",
                self.execution_id
            ))),
            Err(failure) => Err(n8n.api.explain(failure)),
        }
    }
}
