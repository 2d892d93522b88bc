//! Running a workflow: start it once, find its execution, wait for the end within a bound.
//!
//! Nothing here is ever repeated that could start a second run. What a production URL replies is
//! not believed either: a workflow that waits gets an early 200, one that fails may answer anything.
//! The truth is the execution in n8n; the reply counts only where n8n keeps no execution.
//!
//! A caller that knows tasks gets one once the bound is over, and the task follows the execution to
//! its end ([`TASK_WAIT`]); cancelling it stops the execution.

mod builtin_mcp;
mod by_mcp;
mod by_url;
mod clip;
mod find;
mod hooks;
mod multipart;
mod outcome;
mod probe;
mod stop;
mod watch;

use std::time::Duration;

use futures_util::future::join;
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::N8n;
use crate::id::Id;
use crate::plan::{Start, Wish, plan};
use crate::trigger::{Kind, Means, Mode};

pub(crate) use builtin_mcp::BuiltinMcp;
pub(crate) use hooks::Hooks;
pub(crate) use outcome::{Run, RunStatus};

use by_mcp::by_mcp;
use by_url::by_url;
use find::Search;
use outcome::Way;
use stop::stop;
use watch::Watch;

/// How long a task follows its execution: less than the hour that tasks are kept, because a task
/// that expires is given up, and with it the execution.
pub(crate) const TASK_WAIT: Duration = Duration::from_secs(55 * 60);
/// Most runs end in less; only then is it worth looking for the execution.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after the reply, or after the bound, the execution may take to show up.
const LOOK_FOR: Duration = Duration::from_secs(3);
/// n8n refuses an activated workflow for a moment, until all of its parts know of it.
const ACTIVATION: Duration = Duration::from_secs(15);
const ACTIVATION_PAUSE: Duration = Duration::from_millis(200);

/// One run that was asked for.
pub(crate) struct Order {
    pub(crate) workflow: Id,
    pub(crate) parameters: Map<String, Value>,
    /// Name of the trigger node; chosen where absent.
    pub(crate) trigger: Option<String>,
    /// How long to wait for the end; as a task it is [`TASK_WAIT`].
    pub(crate) wait: Duration,
}

/// Runs a workflow and waits for its end, the bound or the caller's patience.
pub(crate) async fn run(n8n: &N8n, order: Order, call: &Call) -> Result<Run, ToolError> {
    let request_id = Uuid::new_v4().to_string();
    let mut watch = Watch::new(n8n, &order, &request_id, call);
    if !call.knows_tasks() {
        // Who asked for a task (2025-11-25) has it from the start.
        watch.goes_on().await;
    }
    let (workflow, newest) = join(
        n8n.api.workflow(&order.workflow),
        Search::newest(&n8n.api, &order.workflow),
    )
    .await;
    let workflow = workflow?;
    n8n.api.policy.check_start(&workflow)?;
    // Without it the search only takes longer.
    watch.begins_after(newest.ok());
    if workflow.forgets_runs() {
        watch.expect_no_execution();
    }
    let wish = Wish {
        parameters: order.parameters,
        trigger: order.trigger.as_deref(),
        request_id: &request_id,
    };
    let logins = n8n.hooks.logins()?;
    let means = Means {
        mcp: n8n.mcp.is_configured(),
        logins: &logins,
    };
    let (trigger, start) = plan(&workflow, wish, means)?;
    if call.is_cancelled() {
        return Err(ToolError::new(
            ToolErrorKind::Cancelled,
            "Cancelled; nothing was started.",
        ));
    }
    let way = way(&start);
    let running = async {
        match start {
            Start::Url(start) => Box::pin(by_url(&watch, start, logins)).await,
            Start::Mcp(start) => Box::pin(by_mcp(&watch, start)).await,
        }
    };
    tokio::pin!(running);
    let run = tokio::select! {
        biased;
        run = &mut running => run?,
        () = call.cancelled() => return Err(stop(&watch, running).await),
    };
    Ok(run.started_by(way, trigger))
}

fn way(start: &Start) -> Way {
    match start {
        Start::Url(start) => match start.kind {
            Kind::Chat => Way::Chat,
            Kind::Form => Way::Form,
            _ => Way::Webhook,
        },
        Start::Mcp(start) => match start.mode {
            Mode::Production => Way::McpProduction,
            Mode::Manual => Way::McpManual,
            Mode::Test => Way::McpTest,
        },
    }
}
