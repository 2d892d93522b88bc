//! `explain_execution`

use n8n_workflow::draft::called_ids;
use n8n_workflow::trace::{Cause, NodeFailure, Trace, find_failure, find_handled};
use n8n_workflow::{Execution, Node, Status, Workflow};
use upstream::time::parse_timestamp;

use super::find;
use crate::api::ExecutionFilter;
use crate::outcome::RunStatus;
use crate::tools::prelude::*;

const MAX_DEPTH: usize = 5;
/// Failed executions of a sub-workflow among which the one that the node has started is searched.
const MAX_RECENT_EXECUTIONS: u32 = 50;

/// Says why an execution failed, or which error its workflow handled: the node, its input, the likely cause
/// and what to try.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainExecution {
    /// list_executions and run_workflow show the id.
    execution_id: Id,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Explanation {
    execution_id: String,
    status: RunStatus,
    workflow_id: Option<String>,
    workflow_name: Option<String>,
    node_type: Option<String>,
    /// This node failed.
    failed: NodeFailure,
    /// This execution of the sub-workflow failed; `failed` is its node.
    sub_execution_id: Option<String>,
    /// It is a guess from the message and the kind of node.
    likely_cause: String,
    advice: String,
    /// These nodes ran, in this order.
    path: Vec<String>,
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

/// Explains the failure of an execution, or the error that its workflow handled.
///
/// # Errors
/// Also if there is neither.
pub(crate) async fn explain(n8n: &N8n, id: &Id) -> Result<Explanation, ToolError> {
    let execution = find(n8n, id, true).await?;
    // Optional: it may have been deleted since, and the execution has most of the information.
    let workflow = n8n.api.workflow_of(&execution).await.ok().flatten();
    let trace = Trace::read(execution.data.as_deref());
    let mut found = diagnose(&execution, &trace, workflow.as_ref(), n8n)?;
    let is_unclear =
        found.failed.item.is_none() && found.failed.input.len() < found.failed.input_items;
    let note = is_unclear
        .then(|| "n8n does not say which item is at fault; `input` has the first ones.".to_owned());
    let mut sub_execution_id = None;
    for _ in 0..MAX_DEPTH {
        let Some(sub) = found.sub_execution(n8n).await else {
            break;
        };
        let trace = Trace::read(sub.data.as_deref());
        let Ok(inner) = diagnose(&sub, &trace, None, n8n) else {
            break;
        };
        let used_by = found.failed.node.take();
        found = inner;
        found.failed.used_by = found.failed.used_by.or(used_by);
        sub_execution_id = Some(sub.id.to_string());
    }
    Ok(Explanation {
        execution_id: execution.id.to_string(),
        status: execution.status.into(),
        workflow_id: execution.workflow_id.as_ref().map(Id::to_string),
        workflow_name: workflow.as_ref().map(|workflow| workflow.name.clone()),
        node_type: found.node_type,
        failed: found.failed,
        sub_execution_id,
        likely_cause: found.cause,
        advice: found.advice.to_owned(),
        path: trace.names().iter().map(ToString::to_string).collect(),
        note,
    })
}

/// The failure of one execution.
struct Diagnosis {
    failed: NodeFailure,
    node_type: Option<String>,
    cause: String,
    advice: &'static str,
    /// The workflows that the failed node starts, and when it began and ended, in milliseconds.
    started: Vec<String>,
    time: Option<(f64, f64)>,
}

fn diagnose(
    execution: &Execution,
    trace: &Trace,
    now: Option<&Workflow>,
    n8n: &N8n,
) -> Result<Diagnosis, ToolError> {
    let was = execution.workflow();
    let workflow = was.as_ref().or(now);
    let handled = match execution.status {
        Status::Success => workflow.and_then(|all| find_handled(trace, all, &n8n.redactor())),
        _ => None,
    };
    let is_handled = handled.is_some();
    let has_error = matches!(
        execution.status,
        Status::Error | Status::Crashed | Status::Unknown
    );
    if !is_handled && !has_error && trace.timeout().is_none() {
        let ends = workflow.map(|all| trace.dead_ends(all)).unwrap_or_default();
        return Err(did_not_fail(execution, &ends));
    }
    let failed = handled.or_else(|| find_failure(trace, &n8n.redactor()));
    let mut failed = failed.unwrap_or_else(|| unrecorded(trace, execution.status));
    let mut nodes = workflow.iter().flat_map(|workflow| &workflow.nodes);
    let node = nodes.find(|node| Some(node.name()) == failed.node.as_deref());
    if let Some(node) = node {
        failed.find_source(node, &n8n.redactor());
    }
    let node_type = node.map(|node| node.kind().to_owned());
    let node_type = node_type.or_else(|| trace.failed_type());
    let Cause { cause, advice } = if execution.status == Status::Crashed {
        Cause::CRASH
    } else {
        Cause::from_failure(&failed, node_type.as_deref())
    };
    let goes_on = match is_handled {
        true => " The workflow went on, as the node's onError says.",
        false => "",
    };
    let parameters = node.filter(|_| !is_handled);
    let parameters = parameters.map(Node::parameters);
    Ok(Diagnosis {
        node_type,
        cause: format!("{cause}{goes_on}"),
        advice,
        started: parameters.into_iter().flat_map(called_ids).collect(),
        time: failed.node.as_deref().and_then(|node| trace.time_of(node)),
        failed,
    })
}

impl Diagnosis {
    /// The failed execution that the node has started, if the policy allows its workflow.
    async fn sub_execution(&self, n8n: &N8n) -> Option<Execution> {
        let (began, ended) = self.time?;
        for id in &self.started {
            let id = Id::try_from(id.clone()).ok()?;
            let filter = ExecutionFilter::newest(Some(&id), Some("error"), MAX_RECENT_EXECUTIONS);
            let page = n8n.api.executions(&filter).await.ok()?;
            let is_its = |one: &Execution| {
                let started = one.started_at.as_deref().and_then(parse_timestamp);
                let started = started.map(|started| started.as_millisecond() as f64);
                started.is_some_and(|started| started >= began && started <= ended)
            };
            let mut its = page.data.into_iter().filter(is_its);
            // Of several it is not known which.
            if let (Some(sub), None) = (its.next(), its.next()) {
                return find(n8n, &sub.id, true).await.ok();
            }
        }
        None
    }
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

fn did_not_fail(execution: &Execution, ends: &[&str]) -> ToolError {
    let status = match RunStatus::from(execution.status) {
        RunStatus::Completed => "completed; get_execution with view `summary` shows what it did",
        RunStatus::Canceled => "was canceled",
        RunStatus::Running | RunStatus::Waiting => "has not ended",
        RunStatus::Failed | RunStatus::Unknown => "failed",
    };
    let ends = match ends {
        [] => String::new(),
        all => format!(
            " No items came out of {}, so what follows did not run.",
            all.join(", ")
        ),
    };
    ToolError::conflict(format!(
        "Execution {} did not fail: it {status}.{ends}",
        execution.id
    ))
}
