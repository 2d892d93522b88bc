//! The resources, which clients can read and subscribe to.
//!
//! The content of a resource is the result of the corresponding tool, so that selection, limits,
//! redaction and policy are in one place. n8n sends no notifications of changes, so resources with
//! subscribers are polled.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use mcp_core::resource::{Resource, ResourceContents, ResourceSet};
use mcp_core::tool::{Call, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use upstream::poll::{self, Backoff, PollTarget};
use upstream::resource::from_tool;

use crate::api::ExecutionFilter;
use crate::service::N8n;
use crate::tools::{GetExecution, GetWorkflow, ListWorkflows};

const JSON: &str = "application/json";
const MAX_VALUES: u32 = 100;
const POLL_BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(1), Duration::from_secs(30)).with_factor(1.5);

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

    async fn read(self, n8n: &N8n, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(ListWorkflows::first_page(), n8n, call).await
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

    async fn read(self, n8n: &N8n, call: &Call) -> Result<ResourceContents, ToolError> {
        read::<GetWorkflow>(json!({"workflow_id": self.id}), n8n, call).await
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

    async fn read(self, n8n: &N8n, call: &Call) -> Result<ResourceContents, ToolError> {
        let preview = json!({"execution_id": self.id, "view": "preview"});
        read::<GetExecution>(preview, n8n, call).await
    }

    async fn complete(n8n: &N8n, _: &str, value: &str) -> Vec<String> {
        execution_ids(n8n, None, value).await
    }
}

/// The result of a tool with these arguments; for what is not an id there is no resource.
async fn read<T: Tool<Service = N8n, Output: Serialize>>(
    arguments: Value,
    n8n: &N8n,
    call: &Call,
) -> Result<ResourceContents, ToolError> {
    let tool = serde_json::from_value::<T>(arguments);
    let tool = tool.map_err(|error| ToolError::not_found(error.to_string()))?;
    from_tool(tool, n8n, call).await
}

pub(crate) async fn workflow_ids(n8n: &N8n, value: &str) -> Vec<String> {
    let listed = ListWorkflows::first_page()
        .call(n8n, &Call::default())
        .await;
    let rows = listed.into_iter().flat_map(|page| page.workflows);
    let ids = rows.map(|row| row.id);
    ids.filter(|id| id.starts_with(value))
        .take(MAX_VALUES as usize)
        .collect()
}

/// Ids of the newest executions that begin with `value`; `status` is n8n's name.
pub(crate) async fn execution_ids(
    n8n: &N8n,
    status: Option<&'static str>,
    value: &str,
) -> Vec<String> {
    let filter = ExecutionFilter::newest(None, status, MAX_VALUES);
    let Ok(page) = n8n.api.executions(&filter).await else {
        return Vec::new();
    };
    let admitted = n8n.api.admitted(page.data).await.unwrap_or_default();
    let ids = admitted
        .into_iter()
        .flatten()
        .map(|execution| execution.id.to_string());
    ids.filter(|id| id.starts_with(value)).collect()
}

/// Polls resources with subscribers and announces their changes.
pub(crate) async fn watch(n8n: &N8n) {
    let is_ours = |uri: &str| {
        let path = uri.strip_prefix("n8n://").unwrap_or_default();
        matches!(path.split('/').next(), Some("workflows" | "executions"))
    };
    let key = |uri: &str| is_ours(uri).then(|| uri.to_owned());
    let open = |uri: &String| WatchedResource {
        n8n,
        uri: uri.clone(),
        seen: None,
    };
    poll::watch(&n8n.changes, key, open).await;
}

struct WatchedResource<'a> {
    n8n: &'a N8n,
    uri: String,
    /// The hash of its content at the last poll; `None` within if there was nothing.
    seen: Option<Option<u64>>,
}

impl WatchedResource<'_> {
    async fn read(&self) -> Result<ResourceContents, ToolError> {
        let (n8n, call) = (self.n8n, Call::default());
        let path = self.uri.trim_start_matches("n8n://");
        match path.split_once('/') {
            Some(("workflows", id)) => Workflow { id: id.to_owned() }.read(n8n, &call).await,
            Some((_, id)) => Execution { id: id.to_owned() }.read(n8n, &call).await,
            None => Workflows {}.read(n8n, &call).await,
        }
    }
}

impl PollTarget for WatchedResource<'_> {
    async fn poll(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
        let now = match self.read().await {
            Ok(ResourceContents::Text(content)) => {
                let mut hasher = DefaultHasher::new();
                content.hash(&mut hasher);
                Some(hasher.finish())
            }
            Err(error) if error.kind() == ToolErrorKind::NotFound => None,
            // Counts as unchanged until it can be read again.
            Ok(_) | Err(_) => return Vec::new(),
        };
        let before = self.seen.replace(now);
        let changed = before.is_some_and(|before| before != now);
        watched.iter().filter(|_| changed).cloned().collect()
    }

    fn backoff(&self) -> Backoff {
        POLL_BACKOFF
    }
}
