//! Runs a workflow: request → plan → start → find → follow.
//!
//! A caller sends a [`RunWorkflow`]. From it and the workflow follows a [`RunPlan`]: the trigger, and
//! the one request that starts it (`plan`, pure). An [`ExecutionWatch`] sends it once, finds the execution in n8n
//! (`find`) and follows it to its end, until the caller's [`Deadline`] (`follow`). The result is a [`Run`].
//!
//! A request that could start a second run is never repeated. The reply of a production URL is not
//! proof of the outcome: a waiting workflow replies 200 early, and a failed one may reply anything.
//! The execution in n8n is; the reply counts only if n8n saves no execution.
//!
//! A call whose client supports tasks becomes a task at its deadline, and the task follows the
//! execution to its end; cancelling it stops the execution.

mod find;
mod follow;
mod plan;
mod resume;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use mcp_core::tool::{Bounded, Call, Effect, TaskSupport, Tool, ToolError, ToolErrorKind};
use n8n_workflow::{Id, Workflow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::outcome::{Kept, OutputSelection, Run};
use crate::service::N8n;
use crate::start_method::StartMethod;

pub(crate) use find::newest;
pub(crate) use resume::Resumption;

use find::{Search, stop};
use follow::{Deadline, ExecutionWatch};
use plan::{HttpInput, RunPlan};

/// Seconds; below the common limit of clients and servers for a call: 30 s.
const DEFAULT_WAIT: u32 = 20;

/// Runs an n8n workflow once and waits for its end; if `running` or `waiting`, call get_execution.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// The trigger receives these: a webhook's path parameters and body (of a GET: query); form fields; a chat's
    /// `chatInput`.
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    /// Name the trigger node if there are several.
    trigger: Option<String>,
    /// Choose one if the webhook takes several.
    method: Option<String>,
    /// A webhook receives these headers.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A webhook receives this query, too.
    #[serde(default)]
    query: Map<String, Value>,
    /// A webhook or form receives these by field: {"name", "type", "text" or "base64"}.
    #[serde(default)]
    files: Map<String, Value>,
    /// The default is 20; then the run goes on and `running` is returned. As an MCP task, the call waits
    /// up to 55 minutes.
    wait_seconds: Option<Bounded<0, 25>>,
    /// Return this many items of the output; by default as many as fit.
    items: Option<Bounded<0, 1_000>>,
    /// Return only these members of the items.
    #[serde(default)]
    fields: Vec<String>,
}

impl Tool for RunWorkflow {
    const NAME: &'static str = "run_workflow";
    const EFFECT: Effect = Effect::Additive;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = N8n;
    type Output = Run;

    /// Waits for the end, the deadline or a cancellation. Secrets in the outcome are redacted.
    async fn call(self, n8n: &N8n, call: &Call) -> Result<Run, ToolError> {
        let wait = self.wait_seconds.map_or(DEFAULT_WAIT, Bounded::get);
        let deadline = Deadline::new(call, Duration::from_secs(wait.into()));
        if !call.supports_tasks() {
            // A client that requested a task (2025-11-25) has it from the start.
            deadline.become_task().await;
        }
        let output = OutputSelection {
            items: self.items.map(Bounded::get),
            fields: self.fields,
        };
        let http = HttpInput {
            method: self.method,
            headers: self.headers,
            query: self.query,
            files: self.files,
        };
        let id = self.workflow_id;
        n8n.api.settle(&id).await;
        let (workflow, newest) = join(n8n.api.shared_workflow(&id), newest(&n8n.api, &id)).await;
        let workflow = workflow?;
        n8n.api.policy.check_start(&workflow)?;
        let request_id = Uuid::new_v4().to_string();
        let (trigger, access) = (self.trigger.as_deref(), n8n.access()?);
        let parameters = self.parameters.unwrap_or_default();
        let plan = RunPlan::new(&workflow, trigger, parameters, http, &request_id, &access)?;
        if plan.runs_drafts {
            let nodes = match plan.way {
                StartMethod::McpProduction => workflow.live_nodes(),
                _ => &workflow.nodes,
            };
            n8n.api.check_called(&workflow, nodes).await?;
        }
        if call.is_cancelled() {
            return Err(ToolError::new(
                ToolErrorKind::Cancelled,
                "Cancelled; nothing was started.",
            ));
        }
        let search = Search {
            request_id,
            // Optional: it only makes the search faster.
            after: newest.ok(),
            ..Search::new(n8n, id)
        };
        let watch = ExecutionWatch {
            n8n,
            search: Arc::new(search),
            deadline,
        };
        // Boxed: the future is large and polled within a select.
        let running = Box::pin(watch.run(plan.way, plan.start, Kept::new(&workflow)));
        let run = tokio::select! {
            biased;
            run = running => run?,
            () = call.cancelled() => return Err(stop(&watch.search).await),
        };
        let mut run = run
            .started_by(plan.way, plan.trigger)
            .shown(&n8n.redactor(), &output);
        if let Some(note) = ran_version(n8n, plan.way, run.version(), &workflow).await {
            run = run.with_note(note);
        }
        Ok(run)
    }
}

/// Says which version ran, if get_workflow shows another version.
async fn ran_version(
    n8n: &N8n,
    way: StartMethod,
    ran: Option<&str>,
    workflow: &Workflow,
) -> Option<String> {
    let live = workflow.active_version_id.as_deref();
    if !way.is_mcp()
        && workflow.active
        && let Some((ran, live)) = ran.zip(live).filter(|(ran, live)| ran != live)
    {
        return Some(format!(
            "Version {ran} ran, and not the version that is published now ({live}): n8n takes a moment to \
             change over. Nothing was repeated."
        ));
    }
    let versions = n8n.api.unpublished(workflow).await?;
    let (draft, live) = (versions.named(), versions.live_version);
    Some(match way {
        StartMethod::McpManual => {
            format!("The draft ran ({draft}), which is not what is live (version {live}).")
        }
        _ => format!(
            "What is live ran (version {live}), not the draft that get_workflow shows ({draft})."
        ),
    })
}
