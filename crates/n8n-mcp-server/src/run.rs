//! Runs a workflow: request → plan → start → find → follow.
//!
//! A caller sends a [`RunRequest`]. From it and the workflow follows a [`RunPlan`]: the trigger, and
//! the one request that starts it (`plan`, pure). It is sent once (`start`); with the result an
//! [`ExecutionWatch`] finds the execution in n8n (`find`) and follows it to its end, until the caller's
//! [`Deadline`] (`follow`). The result is a [`Run`] (`outcome`).
//!
//! A request that could start a second run is never repeated. The reply of a production URL is not
//! proof of the outcome: a waiting workflow replies 200 early, and a failed one may reply anything.
//! The execution in n8n is; the reply counts only if n8n saves no execution.
//!
//! A call whose client supports tasks becomes a task at its deadline, and the task follows the
//! execution to its end; cancelling it stops the execution.

mod find;
mod follow;
mod outcome;
mod plan;
mod resume;
mod start;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use n8n_workflow::{Id, UnpublishedDraft, Workflow};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::service::N8n;
use crate::start_method::StartMethod;

pub(crate) use outcome::{OutputSelection, Run, RunStatus};
pub(crate) use plan::HttpInput;
pub(crate) use resume::Resumption;

use find::{Search, newest, stop};
use follow::{Deadline, ExecutionWatch, Kept};
use plan::RunPlan;

/// The arguments of a run.
pub(crate) struct RunRequest {
    pub(crate) workflow: Id,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) http: HttpInput,
    /// Name of the trigger node; if absent, one is chosen.
    pub(crate) trigger: Option<String>,
    /// The longest wait for the end, unless the call becomes a task.
    pub(crate) wait: Duration,
    pub(crate) output: OutputSelection,
}

/// Runs a workflow and waits for its end, the deadline or a cancellation. Secrets in the outcome are
/// redacted.
pub(crate) async fn run(n8n: &N8n, request: RunRequest, call: &Call) -> Result<Run, ToolError> {
    let deadline = Deadline::new(call, request.wait);
    if !call.supports_tasks() {
        // A client that requested a task (2025-11-25) has it from the start.
        deadline.become_task().await;
    }
    let (id, output) = (request.workflow, request.output);
    n8n.api.settle(&id).await;
    let (workflow, newest) = join(n8n.api.shared_workflow(&id), newest(&n8n.api, &id)).await;
    let workflow = workflow?;
    n8n.api.policy.check_start(&workflow)?;
    let request_id = Uuid::new_v4().to_string();
    let (trigger, access) = (request.trigger.as_deref(), n8n.access()?);
    let (parameters, http) = (request.parameters, request.http);
    let plan = RunPlan::new(&workflow, trigger, parameters, http, &request_id, &access)?;
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
        kept: Kept::new(&workflow),
    };
    let RunPlan { trigger, start } = plan;
    let way = start.way();
    // Boxed: the future is large and polled within a select.
    let mut running = Box::pin(async {
        let started = start.send(&watch).await?;
        watch.follow_to_end(started).await
    });
    let run = tokio::select! {
        biased;
        run = &mut running => run?,
        () = call.cancelled() => return Err(stop(&watch.search, running).await),
    };
    let mut run = run.started_by(way, trigger).shown(&n8n.redactor(), &output);
    if let Some(note) = ran_version(way, run.version(), &workflow) {
        run = run.with_note(note);
    }
    Ok(run)
}

/// Says which version ran, if that is not the one that get_workflow shows.
fn ran_version(way: StartMethod, ran: Option<&str>, workflow: &Workflow) -> Option<String> {
    let live = workflow.active_version_id.as_deref();
    if !way.is_mcp()
        && workflow.active
        && let Some((ran, live)) = ran.zip(live).filter(|(ran, live)| ran != live)
    {
        return Some(format!(
            "Version {ran} ran, and not the one that is published now (version {live}): n8n takes a moment \
             to change over. Nothing was repeated."
        ));
    }
    let UnpublishedDraft {
        draft_version: draft,
        live_version: live,
        ..
    } = workflow.unpublished_draft()?;
    Some(match way {
        StartMethod::McpManual => {
            format!("The draft ran (version {draft}), which is not what is live (version {live}).")
        }
        _ => format!(
            "What is live ran (version {live}), not the draft that get_workflow shows (version {draft})."
        ),
    })
}
