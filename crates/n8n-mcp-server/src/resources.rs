//! What can be looked at, and watched, without a call of a tool.
//!
//! A resource holds what the tool of the same subject answers: so it is selected, bounded, redacted
//! and admitted in one place.

mod watch;

use mcp_core::resource::{Contents, Resource, ResourceSet};
use mcp_core::tool::{Call, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::ExecutionFilter;
use crate::service::N8n;
use crate::tools::{GetExecution, GetWorkflow, ListWorkflows};

pub(crate) use watch::watch;

const JSON: &str = "application/json";
/// The most values that are proposed.
const MAX_VALUES: u32 = 100;

/// All resources, in the order in which they are listed.
pub(crate) fn all() -> ResourceSet<N8n> {
    ResourceSet::new()
        .with::<Workflows>()
        .with::<Workflow>()
        .with::<Execution>()
}

/// The workflows of n8n, without archived ones.
#[derive(Deserialize, JsonSchema)]
struct Workflows {}

impl Resource for Workflows {
    const URI: &'static str = "n8n://workflows";
    const NAME: &'static str = "workflows";
    const MIME_TYPE: &'static str = JSON;
    type Service = N8n;

    async fn read(self, n8n: &N8n, call: &Call) -> Result<Contents, ToolError> {
        workflows(n8n, call).await.map(Contents::Text)
    }
}

/// One workflow: its nodes, how they are connected, how it can be run.
#[derive(Deserialize, JsonSchema)]
struct Workflow {
    id: String,
}

impl Resource for Workflow {
    const URI: &'static str = "n8n://workflows/{id}";
    const NAME: &'static str = "workflow";
    const MIME_TYPE: &'static str = JSON;
    type Service = N8n;

    async fn read(self, n8n: &N8n, call: &Call) -> Result<Contents, ToolError> {
        workflow(n8n, &self.id, call).await.map(Contents::Text)
    }

    async fn complete(n8n: &N8n, _: &str, value: &str) -> Vec<String> {
        workflow_ids(n8n, value).await
    }
}

/// One execution: its status and what each node did, without data.
#[derive(Deserialize, JsonSchema)]
struct Execution {
    id: String,
}

impl Resource for Execution {
    const URI: &'static str = "n8n://executions/{id}";
    const NAME: &'static str = "execution";
    const MIME_TYPE: &'static str = JSON;
    type Service = N8n;

    async fn read(self, n8n: &N8n, call: &Call) -> Result<Contents, ToolError> {
        execution(n8n, &self.id, call).await.map(Contents::Text)
    }

    async fn complete(n8n: &N8n, _: &str, value: &str) -> Vec<String> {
        execution_ids(n8n, None, value).await
    }
}

async fn workflows(n8n: &N8n, call: &Call) -> Result<String, ToolError> {
    answer::<ListWorkflows>(json!({"limit": 250}), n8n, call).await
}

async fn workflow(n8n: &N8n, id: &str, call: &Call) -> Result<String, ToolError> {
    answer::<GetWorkflow>(json!({ "workflow_id": id }), n8n, call).await
}

async fn execution(n8n: &N8n, id: &str, call: &Call) -> Result<String, ToolError> {
    let arguments = json!({"execution_id": id, "view": "preview"});
    answer::<GetExecution>(arguments, n8n, call).await
}

/// What the tool `T` answers to these arguments, as JSON.
async fn answer<T>(arguments: Value, n8n: &N8n, call: &Call) -> Result<String, ToolError>
where
    T: Tool<Service = N8n, Output: Serialize>,
{
    // Only an id can be wrong here, and then there is nothing by that name.
    let tool: T = serde_json::from_value(arguments)
        .map_err(|error| ToolError::not_found(error.to_string()))?;
    let answer = tool.call(n8n, call).await?;
    serde_json::to_string(&answer)
        .map_err(|error| ToolError::upstream("The answer cannot be written.").caused_by(error))
}

/// Ids of workflows that begin with `value`.
pub(crate) async fn workflow_ids(n8n: &N8n, value: &str) -> Vec<String> {
    #[derive(Default, Deserialize)]
    struct Page {
        workflows: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        id: String,
    }
    let listed = workflows(n8n, &Call::default()).await.unwrap_or_default();
    let page: Page = serde_json::from_str(&listed).unwrap_or_default();
    let ids = page.workflows.into_iter().map(|row| row.id);
    ids.filter(|id| id.starts_with(value))
        .take(MAX_VALUES as usize)
        .collect()
}

/// Ids of the newest executions that begin with `value`; `status` in n8n's words.
pub(crate) async fn execution_ids(
    n8n: &N8n,
    status: Option<&'static str>,
    value: &str,
) -> Vec<String> {
    let filter = ExecutionFilter {
        status,
        limit: MAX_VALUES,
        ..ExecutionFilter::default()
    };
    let Ok(page) = n8n.api.executions(&filter).await else {
        return Vec::new();
    };
    let admitted = n8n.api.admitted(page.data).await.unwrap_or_default();
    let ids = admitted
        .into_iter()
        .map(|execution| execution.id.to_string());
    ids.filter(|id| id.starts_with(value)).collect()
}
