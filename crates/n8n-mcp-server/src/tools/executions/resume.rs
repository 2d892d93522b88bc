//! `resume_execution`

use std::time::Duration;

use n8n_workflow::{Status, Workflow};

use super::find;
use crate::run::{OutputSelection, Resumption, Run};
use crate::tools::prelude::*;

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
