//! A run that n8n's built-in MCP server starts.

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::sleep;

use super::builtin_mcp::{Started, Starting};
use super::outcome::Run;
use super::watch::{FIRST_PAUSE, Watch};
use crate::api::Execution;
use crate::id::Id;
use crate::plan::{Inputs, McpStart};

/// What is known of the execution.
enum Found {
    Id(Id),
    Execution(Box<Execution>),
    Nothing,
}

impl Found {
    fn of(watch: &Watch<'_>, execution: Execution) -> Self {
        watch.remember(&execution.id);
        Self::Execution(Box::new(execution))
    }
}

/// Has the server start it and follows its execution.
pub(super) async fn by_mcp(watch: &Watch<'_>, start: McpStart) -> Result<Run, ToolError> {
    let within = watch.longest();
    let mcp = &watch.n8n.mcp;
    let request_id = watch.request_id;
    let starting = mcp
        .start(
            &watch.workflow,
            &start,
            request_id,
            within,
            &watch.execution,
        )
        .await?;
    if starting.waits && !matches!(start.inputs, Inputs::Item(_) | Inputs::Webhook(_)) {
        watch.keeps_nothing();
    }
    let (id, run) = match found(watch, starting).await? {
        Found::Id(id) => {
            watch.remember(&id);
            let run = watch.follow_id(&id).await;
            (id, run)
        }
        Found::Execution(execution) => {
            let id = execution.id.clone();
            (id, watch.follow(*execution).await)
        }
        Found::Nothing => {
            return Ok(Run::running(None).noting(
                "n8n's MCP server did not name the execution. If the workflow was started, it is \
                 among the newest ones; look into n8n before running it again.",
            ));
        }
    };
    let gone = || Run::running(Some(&id)).noting("n8n does not keep this execution.");
    Ok(run.unwrap_or_else(gone))
}

/// Waits for n8n's answer. Where that comes at the end of the run only, looks for the execution
/// in the meantime: the trigger keeps our id, if it keeps anything.
async fn found(watch: &Watch<'_>, mut starting: Starting) -> Result<Found, ToolError> {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            biased;
            answer = &mut starting.answer => {
                let answer = answer.map_err(|error| {
                    ToolError::new(
                        ToolErrorKind::Upstream,
                        "The request to n8n's MCP server was abandoned.",
                    )
                    .caused_by(error)
                })?;
                return match watch.n8n.mcp.started(answer)? {
                    Started::Known(id) => Ok(Found::Id(id)),
                    // Nobody knows whether it has begun: only what holds our id is ours.
                    Started::Unknown => Ok(match watch.find_once().await {
                        Some(execution) => Found::of(watch, execution),
                        None => Found::Nothing,
                    }),
                };
            }
            () = sleep(pause) => {}
        }
        pause = watch.longer(pause);
        watch.progress();
        if starting.waits {
            if let Some(execution) = watch.find_once().await {
                return Ok(Found::of(watch, execution));
            }
            if watch.is_over().await {
                return Ok(late(watch).await);
            }
        }
    }
}

/// The execution of a run that has certainly begun, if it has at all.
async fn late(watch: &Watch<'_>) -> Found {
    if let Some(execution) = watch.find_once().await {
        return Found::of(watch, execution);
    }
    match watch.only_new().await {
        Some(id) => Found::Id(id),
        None => Found::Nothing,
    }
}
