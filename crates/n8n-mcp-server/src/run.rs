//! Running a workflow: request → plan → start → watch.
//!
//! A [`RunRequest`] is what the caller asks for. From it and the workflow a [`RunPlan`] follows: the
//! trigger, and the one request that starts it (`plan`, pure). It is sent once, and what comes of
//! that is an [`ExecutionRef`], by which an [`ExecutionWatch`] finds the execution in n8n (`search`)
//! and follows it to its end, within the caller's [`Deadline`]; a [`Run`] says what came out of it
//! (`outcome`).
//!
//! Nothing here is ever repeated that could start a second run. What a production URL replies is
//! not believed either: a workflow that waits gets an early 200, one that fails may answer anything.
//! The truth is the execution in n8n; the reply counts only where n8n keeps no execution.
//!
//! A caller that knows tasks gets one once the bound is over, and the task follows the execution to
//! its end; cancelling it stops the execution (`stop`).

mod clip;
mod deadline;
mod outcome;
mod plan;
mod scan_by_id;
mod search;
mod stop;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::id::Id;
use crate::service::N8n;

pub(crate) use outcome::{Run, RunStatus};

use deadline::Deadline;
use plan::{RunPlan, Start};
use search::Search;
use stop::stop;
use watch::{ExecutionRef, ExecutionWatch};

/// One run that is asked for.
pub(crate) struct RunRequest {
    pub(crate) workflow: Id,
    pub(crate) parameters: Map<String, Value>,
    /// Name of the trigger node; chosen where absent.
    pub(crate) trigger: Option<String>,
    /// How long to wait for the end, unless the call goes on as a task.
    pub(crate) wait: Duration,
}

/// Runs a workflow and waits for its end, the bound or the caller's patience. What looks like a
/// secret is hidden in the outcome.
pub(crate) async fn run(n8n: &N8n, request: RunRequest, call: &Call) -> Result<Run, ToolError> {
    let deadline = Deadline::new(call, request.wait);
    if !call.supports_tasks() {
        // Who asked for a task (2025-11-25) has it from the start.
        deadline.goes_on().await;
    }
    let RunRequest {
        workflow: id,
        parameters,
        trigger,
        ..
    } = request;
    let (workflow, newest) = join(n8n.api.workflow(&id), search::newest(&n8n.api, Some(&id))).await;
    let workflow = workflow?;
    n8n.api.policy.check_start(&workflow)?;
    let request_id = Uuid::new_v4().to_string();
    let access = n8n.access()?;
    let plan = RunPlan::new(
        &workflow,
        trigger.as_deref(),
        parameters,
        &request_id,
        &access,
    )?;
    if call.is_cancelled() {
        return Err(ToolError::new(
            ToolErrorKind::Cancelled,
            "Cancelled; nothing was started.",
        ));
    }
    // Without the newest the search only takes longer.
    let search = Search::new(&n8n.api, id, request_id, newest.ok());
    let watch = ExecutionWatch::new(n8n, Arc::new(search), deadline, workflow.forgets_runs());
    let (way, trigger) = (plan.way(), plan.trigger.clone());
    // Large, and polled from within a select.
    let mut running = Box::pin(async {
        let execution = plan.start(&watch).await?;
        watch.follow_to_end(execution).await
    });
    let run = tokio::select! {
        biased;
        run = &mut running => run?,
        () = call.cancelled() => return Err(stop(&watch.search, running).await),
    };
    Ok(run.started_by(way, trigger).redacted(&n8n.redactor))
}

impl RunPlan {
    /// Sends the one request that starts the run.
    ///
    /// # Errors
    /// When nothing was started.
    async fn start(self, watch: &ExecutionWatch<'_>) -> Result<ExecutionRef, ToolError> {
        let (n8n, search) = (watch.n8n, &watch.search);
        let within = watch.deadline.longest_start();
        match self.start {
            Start::Url(request) => {
                let replies_late = request.replies_late;
                let (workflow, id) = (search.workflow.clone(), search.request_id.clone());
                let reply = n8n.urls.send(request, workflow, id, within)?;
                Ok(ExecutionRef::Replying {
                    reply,
                    replies_late,
                })
            }
            Start::Mcp(request) => {
                let (workflow, id) = (&search.workflow, &search.request_id);
                let start = n8n
                    .mcp
                    .start(&request, workflow, id, within, &search.execution)
                    .await?;
                Ok(ExecutionRef::Named(start))
            }
        }
    }
}
