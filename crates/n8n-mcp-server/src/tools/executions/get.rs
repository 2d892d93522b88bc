//! `get_execution`

use n8n_workflow::trace::{NodeFailure, NodeRow, NodeSelection, Trace, find_failure, node_rows};

use super::find;
use crate::run::{OutputSelection, Run};
use crate::tools::prelude::*;

/// Items per node that `summary` and `full` show by default.
const DEFAULT_SUMMARY_ITEMS: u32 = 2;
const DEFAULT_FULL_ITEMS: u32 = 50;

/// Status of one execution, with its output or error once it has ended; on request what each node
/// did.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetExecution {
    /// From run_workflow.
    execution_id: Id,
    /// preview: nodes without data; summary: with first items; full: all items; error: the failed
    /// node and its input.
    #[serde(default)]
    view: View,
    /// Only these nodes.
    #[serde(default)]
    nodes: Vec<String>,
    /// Items per node, or of the output.
    items: Option<Bounded<0, 1_000>>,
    /// Only these members of the output's items.
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
    /// In the order in which they ran.
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
                "`nodes` names {unknown:?}, which did not run in this execution. Those that did: \
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
        let selection = NodeSelection {
            nodes: &self.nodes,
            items: self.items() as usize,
        };
        (shown.nodes, shown.cut) = node_rows(&trace, selection, &n8n.redactor());
        Ok(shown)
    }
}

impl GetExecution {
    /// The call for the nodes without their data.
    pub(crate) fn preview(execution_id: Id) -> Self {
        Self {
            execution_id,
            view: View::Preview,
            nodes: Vec::new(),
            items: None,
            fields: Vec::new(),
        }
    }

    fn items(&self) -> u32 {
        let default = match self.view {
            View::Preview => return 0,
            View::Summary => DEFAULT_SUMMARY_ITEMS,
            View::Result | View::Full | View::Error => DEFAULT_FULL_ITEMS,
        };
        self.items.map_or(default, Bounded::get)
    }
}
