//! A run that a request to its production URL starts.

use mcp_core::tool::{ToolError, ToolErrorKind};

use super::PATIENCE;
use super::hooks::Answer;
use super::outcome::Run;
use super::watch::Watch;
use crate::logins::Known;
use crate::plan::UrlStart;

/// Sends the request and follows its execution.
pub(super) async fn by_url(
    watch: &Watch<'_>,
    start: UrlStart,
    logins: Known,
) -> Result<Run, ToolError> {
    let within = watch.longest();
    let hooks = &watch.n8n.hooks;
    let mut hook = hooks.send(&watch.workflow, start, logins, watch.request_id, within);
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
