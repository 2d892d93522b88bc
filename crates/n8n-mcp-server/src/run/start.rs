//! Starts a run: sends the one request that its plan made.

use mcp_core::tool::ToolError;

use super::follow::ExecutionWatch;
use super::plan::Start;
use crate::builtin_mcp::McpStart;
use crate::pending::Pending;
use crate::production_url::{UrlAnswer, UrlReply};
use crate::start_method::StartMethod;

/// A run whose request was sent.
pub(super) enum StartedRun {
    /// Through a production URL: its execution holds our request id.
    ByUrl(UrlRun),
    /// Through n8n's MCP server, which returns the execution's id.
    ByMcp(McpStart),
}

pub(super) struct UrlRun {
    pub(super) reply: Pending<UrlAnswer>,
    /// The reply comes at the end of the run.
    pub(super) replies_at_end: bool,
    pub(super) is_webhook: bool,
}

impl UrlRun {
    pub(super) fn reply(&self) -> Option<&UrlReply> {
        match self.reply.answer() {
            Some(UrlAnswer::Reply(reply)) => Some(reply),
            _ => None,
        }
    }

    /// The reply, if it comes at the end of the run.
    pub(super) fn reply_at_end(&self) -> Option<&UrlReply> {
        self.reply().filter(|_| self.replies_at_end)
    }
}

impl Start {
    /// Sends the one request that starts the run.
    ///
    /// # Errors
    /// When nothing was started.
    pub(super) async fn send(self, watch: &ExecutionWatch<'_>) -> Result<StartedRun, ToolError> {
        let (n8n, search) = (watch.n8n, &watch.search);
        let (workflow, id) = (&search.workflow, &search.request_id);
        let within = watch.deadline.start_timeout();
        match self {
            Self::Url(request) => {
                let (way, replies_at_end) = (request.way, request.replies_at_end);
                let reply = n8n.urls.send(request, workflow, id, within)?;
                Ok(StartedRun::ByUrl(UrlRun {
                    reply,
                    replies_at_end,
                    is_webhook: way == StartMethod::Webhook,
                }))
            }
            Self::Mcp(request) => {
                let known = &search.execution;
                let start = n8n.mcp.start(&request, workflow, id, within, known).await?;
                Ok(StartedRun::ByMcp(start))
            }
        }
    }
}
