//! `explain_execution`

use super::find;
use crate::api::{Execution, Status};
use crate::run::RunStatus;
use crate::tools::prelude::*;
use crate::trace::{Cause, NodeFailure, Trace, find_failure};

/// Why an execution failed: the node, its input, the message, the likely cause and what to try.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainExecution {
    /// From list_executions or run_workflow.
    execution_id: Id,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Explanation {
    execution_id: String,
    status: RunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_type: Option<String>,
    failed: NodeFailure,
    /// A guess from the message and the kind of node.
    likely_cause: String,
    advice: String,
    /// The nodes that ran, in order.
    path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Tool for ExplainExecution {
    const NAME: &'static str = "explain_execution";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Explanation;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Explanation, ToolError> {
        explain(n8n, &self.execution_id).await
    }
}

/// Explains the failure of an execution.
///
/// # Errors
/// Also if it did not fail.
pub(crate) async fn explain(n8n: &N8n, id: &Id) -> Result<Explanation, ToolError> {
    let execution = find(n8n, id, true).await?;
    if !matches!(
        execution.status,
        Status::Error | Status::Crashed | Status::Unknown
    ) {
        return Err(did_not_fail(&execution));
    }
    // Optional: it may have been deleted since, and the execution has most of the information.
    let workflow = match &execution.workflow_id {
        Some(id) => n8n.api.workflow(id).await.ok(),
        None => None,
    };
    let trace = Trace::read(execution.data.as_deref());
    let failed = find_failure(&trace, &n8n.redactor);
    let failed = failed.unwrap_or_else(|| unrecorded(&trace, execution.status));
    let mut nodes = workflow.iter().flat_map(|workflow| &workflow.nodes);
    let node = nodes.find(|node| Some(&node.name) == failed.node.as_ref());
    let node_type = trace.failed_type();
    let node_type = node_type.or_else(|| node.map(|node| node.kind.clone()));
    let Cause { cause, advice } = if execution.status == Status::Crashed {
        Cause::CRASH
    } else {
        Cause::from_failure(&failed, node_type.as_deref())
    };
    let is_disabled = node.is_some_and(|node| node.disabled);
    Ok(Explanation {
        execution_id: execution.id.to_string(),
        status: execution.status.into(),
        workflow_id: execution.workflow_id.as_ref().map(Id::to_string),
        workflow_name: workflow.as_ref().map(|workflow| workflow.name.clone()),
        node_type,
        failed,
        likely_cause: cause.to_owned(),
        advice: advice.to_owned(),
        path: trace.names().iter().map(ToString::to_string).collect(),
        note: is_disabled.then(|| "The node has been disabled since.".to_owned()),
    })
}

/// The failure of an execution without a saved error, such as after a crash of n8n.
fn unrecorded(trace: &Trace, status: Status) -> NodeFailure {
    let message = if status == Status::Crashed {
        "n8n stopped while this ran."
    } else {
        "n8n saved no error of this execution."
    };
    NodeFailure {
        node: trace.names().last().map(ToString::to_string),
        message: message.to_owned(),
        ..NodeFailure::default()
    }
}

fn did_not_fail(execution: &Execution) -> ToolError {
    let status = match RunStatus::from(execution.status) {
        RunStatus::Completed => "completed; get_execution with view `summary` shows what it did",
        RunStatus::Canceled => "was canceled",
        RunStatus::Running | RunStatus::Waiting => "has not ended",
        RunStatus::Failed | RunStatus::Unknown => "failed",
    };
    ToolError::conflict(format!(
        "Execution {} did not fail: it {status}.",
        execution.id
    ))
}
