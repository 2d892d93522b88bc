//! What a server says and asks of its own accord, and who takes it.

use std::pin::Pin;

use serde_json::value::RawValue;

use crate::{RpcError, ServerInfo};

/// The answer to a request of the server, when it is there.
pub type Reply = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RpcError>> + Send>>;

/// Takes what a server sends without being asked.
///
/// A [client](crate::Builder::handler) has one for everything, and [a request](crate::Options) may
/// have one for what belongs to it alone: its progress, the log messages and the requests of the
/// server that come while it is under way. Over HTTP the stream tells what belongs to a request; on
/// stdio its progress token does, and where only one request is under way everything is taken to
/// belong to that one.
///
/// The methods are called by the task that reads from the server, in the order in which the
/// messages came: they must not block. Everything has a default, which ignores or refuses.
pub trait Handler: Send + Sync {
    /// A notification, for example `notifications/tools/list_changed`; parameters byte for byte.
    /// In `notifications/progress` the token is the one that the caller's `_meta` held.
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let _ = params;
        tracing::debug!(method, "a notification of the server is ignored");
    }

    /// A request, for example `sampling/createMessage` (before 2026-07-28; since then servers ask
    /// in results, which reach the caller as they are). `ping` is answered without asking here.
    ///
    /// The answer is sent when it is there; it is dropped when the server cancels the request. At
    /// most 64 are waited for at the same time, more are refused.
    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        let _ = params;
        let refusal = RpcError::new(
            mcp_core::jsonrpc::METHOD_NOT_FOUND,
            format!("Method not found: {method}"),
        );
        Box::pin(std::future::ready(Err(refusal)))
    }

    /// A line that a child wrote to stderr, cut at 4 KiB, without its end. Of a child that floods
    /// us only 50 lines a second come here; the others are
    /// [counted](crate::Counters::stderr_dropped).
    fn stderr(&self, peer: &str, line: &str) {
        // Escaped: the line may hold what a terminal obeys.
        tracing::info!(target: "mcp_client::stderr", peer, ?line);
    }

    /// The server had forgotten the session and a new one was opened: what was subscribed to or set
    /// in the old one is gone, and lists may have changed.
    fn session_renewed(&self, server: &ServerInfo) {
        let _ = server;
    }
}

/// The handler of those who want nothing from the server but answers.
pub(crate) struct Nobody;

impl Handler for Nobody {}
