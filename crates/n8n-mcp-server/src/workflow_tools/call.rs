//! One workflow as a tool: its definition, and its call.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{ArgumentError, BoundTool, Call, Definition, Output, Running, Tool as _};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::definition::Offered;
use crate::run::{Run, RunRequest, run};
use crate::service::N8n;
use crate::tools::RunWorkflow;

/// Below what clients and servers commonly allow a call: 30 s.
const WAIT: Duration = Duration::from_secs(20);

/// A tool that runs one workflow.
pub(super) struct WorkflowTool {
    n8n: Arc<N8n>,
    offered: Offered,
}

impl WorkflowTool {
    /// The tool and its definition; `None` if the note of a workflow holds a schema that no client
    /// could read.
    pub(super) fn declare(
        n8n: &Arc<N8n>,
        name: String,
        offered: &Offered,
    ) -> Option<(Definition, Arc<dyn BoundTool>)> {
        let item = json!({
            "title": offered.title,
            "description": offered.description,
            "inputSchema": offered.input,
            "outputSchema": Run::schema(),
            // What the workflow does is not known here.
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
        });
        let item = to_raw_value(&item).ok()?;
        let definition = Definition::imported(name.clone(), name, &item);
        let mut definition = definition
            .inspect_err(|error| tracing::warn!(error, "workflow {} is no tool", offered.workflow))
            .ok()?;
        definition.task = RunWorkflow::TASK;
        let tool = Self {
            n8n: Arc::clone(n8n),
            offered: offered.clone(),
        };
        Some((definition, Arc::new(tool)))
    }

    /// The arguments, as far as they can be checked without a validator.
    fn read(&self, arguments: &RawValue) -> Result<Map<String, Value>, ArgumentError> {
        let wrong = |field: &str, reason: &str| ArgumentError {
            field: field.to_owned(),
            reason: reason.to_owned(),
        };
        let parameters: Map<String, Value> = serde_json::from_str(arguments.get())
            .map_err(|_| wrong("", "arguments must be a JSON object"))?;
        let required = self.offered.input["required"].as_array();
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        match required.find(|name| !parameters.contains_key(*name)) {
            Some(missing) => Err(wrong(missing, "Required field missing")),
            None => Ok(parameters),
        }
    }
}

impl BoundTool for WorkflowTool {
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<Running<'a>, ArgumentError> {
        let request = RunRequest {
            workflow: self.offered.workflow.clone(),
            parameters: self.read(arguments)?,
            trigger: Some(self.offered.trigger.clone()),
            wait: WAIT,
        };
        Ok(Box::pin(async move {
            let run = run(&self.n8n, request, call).await?;
            run.into_result().map_err(|error| {
                mcp_core::tool::ToolError::upstream("The result could not be written as JSON.")
                    .caused_by(error)
            })
        }))
    }
}
