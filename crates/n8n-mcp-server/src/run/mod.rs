//! Running a workflow: start it once, find its execution, wait for the end within a bound.
//!
//! Nothing here is ever repeated that could start a second run. What a production URL replies is
//! not believed either: a workflow that waits gets an early 200, one that fails may answer anything.
//! The truth is the execution in n8n; the reply counts only where n8n keeps no execution.

mod builtin_mcp;
mod clip;
mod find;
mod hooks;
mod outcome;
mod watch;

use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::{Map, Value};
use tokio::time::timeout;
use uuid::Uuid;

use crate::N8n;
use crate::id::Id;
use crate::plan::{McpStart, Start, UrlStart, Wish, plan};
use crate::trigger::{Kind, Mode};

pub(crate) use builtin_mcp::BuiltinMcp;
pub(crate) use hooks::Hooks;
pub(crate) use outcome::{Run, RunStatus};

use builtin_mcp::Started;
use hooks::Answer;
use outcome::Way;
use watch::Watch;

/// Most runs end in less; only then is it worth looking for the execution.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after the reply, or after the bound, the execution may take to show up.
const LOOK_FOR: Duration = Duration::from_secs(3);
/// n8n refuses an activated workflow for a moment, until all of its parts know of it.
const ACTIVATION: Duration = Duration::from_secs(2);
const ACTIVATION_PAUSE: Duration = Duration::from_millis(200);
/// What stopping a run may take once the caller has given up: the caller waits for it.
const STOP_WITHIN: Duration = Duration::from_millis(1_800);

/// One run that was asked for.
pub(crate) struct Order {
    pub(crate) workflow: Id,
    pub(crate) parameters: Map<String, Value>,
    /// Name of the trigger node; chosen where absent.
    pub(crate) trigger: Option<String>,
    /// How long to wait for the end.
    pub(crate) wait: Duration,
}

/// Runs a workflow and waits for its end, the bound or the caller's patience.
pub(crate) async fn run(n8n: &N8n, order: Order, call: &Call) -> Result<Run, ToolError> {
    let request_id = Uuid::new_v4().to_string();
    let mut watch = Watch::new(n8n, &order, &request_id, call);
    let workflow = n8n.api.workflow(&order.workflow).await?;
    n8n.api.policy.check_start(&workflow)?;
    if workflow.forgets_runs() {
        watch.expect_no_execution();
    }
    let wish = Wish {
        parameters: order.parameters,
        trigger: order.trigger.as_deref(),
        request_id: &request_id,
    };
    let (trigger, start) = plan(&workflow, wish, n8n.mcp.is_configured())?;
    if call.is_cancelled() {
        return Err(ToolError::new(
            ToolErrorKind::Cancelled,
            "Cancelled; nothing was started.",
        ));
    }
    let way = way(&start);
    let running = async {
        match start {
            Start::Url(start) => by_url(&watch, start).await,
            Start::Mcp(start) => by_mcp(&watch, start).await,
        }
    };
    let run = tokio::select! {
        biased;
        run = running => run?,
        () = call.cancelled() => return Err(stop(&watch).await),
    };
    Ok(run.started_by(way, trigger))
}

fn way(start: &Start) -> Way {
    match start {
        Start::Url(UrlStart {
            kind: Kind::Chat, ..
        }) => Way::Chat,
        Start::Url(_) => Way::Webhook,
        Start::Mcp(McpStart {
            mode: Mode::Production,
            ..
        }) => Way::McpProduction,
        Start::Mcp(McpStart {
            mode: Mode::Manual, ..
        }) => Way::McpManual,
    }
}

async fn by_url(watch: &Watch<'_>, start: UrlStart) -> Result<Run, ToolError> {
    let within = watch.left() + LOOK_FOR;
    let hooks = &watch.n8n.hooks;
    let mut hook = hooks.send(&watch.workflow, start, watch.request_id, within);
    hook.wait(watch.left().min(PATIENCE)).await?;
    match watch.find(&mut hook).await? {
        Some(execution) => Ok(match watch.follow(execution).await {
            Some(run) => run,
            // Gone: n8n does not keep it. What it replied is all that there will ever be.
            None => {
                hook.wait(watch.left()).await?;
                hook.unsaved(watch.known())
            }
        }),
        None => match hook.answer() {
            Some(Answer::Lost(_)) => Err(ToolError::new(
                ToolErrorKind::Unavailable,
                "The connection ended before n8n replied, and n8n shows no execution of this run. \
                 It may have run or not; it was not repeated. Look into n8n before running it again.",
            )),
            _ => hook.refusal().map_or_else(|| Ok(hook.unsaved(None)), Err),
        },
    }
}

async fn by_mcp(watch: &Watch<'_>, start: McpStart) -> Result<Run, ToolError> {
    let id = match watch
        .n8n
        .mcp
        .start(&watch.workflow, &start, watch.left())
        .await?
    {
        Started::Known(id) => Some(id),
        // It was told our id, so its execution can be found where the trigger keeps it.
        Started::Unknown => watch.find_once().await.map(|execution| execution.id),
    };
    let Some(id) = id else {
        return Ok(Run::running(None).noting(
            "n8n's MCP server did not name the execution. If the workflow was started, it is the \
             newest one; look into n8n before running it again.",
        ));
    };
    watch.remember(&id);
    let gone = || Run::running(Some(&id)).noting("n8n does not keep this execution.");
    Ok(watch.follow_id(&id).await.unwrap_or_else(gone))
}

/// The caller has given up: so does n8n, if the run is found.
async fn stop(watch: &Watch<'_>) -> ToolError {
    let stopping = async {
        let id = match watch.known() {
            Some(id) => id,
            None => watch.find_patiently().await?.id,
        };
        watch.n8n.api.stop(&id).await.is_ok().then_some(id)
    };
    let text = match timeout(STOP_WITHIN, stopping).await {
        Ok(Some(id)) => format!("Cancelled; execution {id} was stopped."),
        _ => "Cancelled; if the run had started, it goes on in n8n.".to_owned(),
    };
    ToolError::new(ToolErrorKind::Cancelled, text)
}
