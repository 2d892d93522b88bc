//! `run_workflow`

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::tool::TaskSupport;

use crate::run::{HttpInput, OutputSelection, Run, RunRequest, run};
use crate::tools::prelude::*;

/// Seconds; below the common limit of clients and servers for a call: 30 s.
const DEFAULT_WAIT: u32 = 20;

/// Runs an n8n workflow once and waits for its end; if `running` or `waiting`, call get_execution.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// For the trigger: a webhook's body, query and path parameters; form fields; a chat's
    /// `chatInput`.
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    /// Name of the trigger node, if there are several.
    trigger: Option<String>,
    /// Of a webhook that takes several.
    method: Option<String>,
    /// More headers, for a webhook.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// More query, for a webhook.
    #[serde(default)]
    query: Map<String, Value>,
    /// For a webhook or form, by field: {"name", "type", "text" or "base64"}.
    #[serde(default)]
    files: Map<String, Value>,
    /// Default 20; then the run goes on and `running` is returned. A task waits for the end, up to
    /// 55 minutes.
    wait_seconds: Option<Bounded<0, 25>>,
    /// Items of the output; default: as many as fit.
    items: Option<Bounded<0, 1_000>>,
    /// Only these members of them.
    #[serde(default)]
    fields: Vec<String>,
}

impl Tool for RunWorkflow {
    const NAME: &'static str = "run_workflow";
    const EFFECT: Effect = Effect::Additive;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = N8n;
    type Output = Run;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Run, ToolError> {
        let wait = self.wait_seconds.map_or(DEFAULT_WAIT, Bounded::get);
        let request = RunRequest {
            workflow: self.workflow_id,
            parameters: self.parameters.unwrap_or_default(),
            http: HttpInput {
                method: self.method,
                headers: self.headers,
                query: self.query,
                files: self.files,
            },
            trigger: self.trigger,
            wait: Duration::from_secs(wait.into()),
            output: OutputSelection {
                items: self.items.map(Bounded::get),
                fields: self.fields,
            },
        };
        run(n8n, request, call).await
    }
}
