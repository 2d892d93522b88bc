//! The receiver of a server's own messages.

use std::pin::Pin;

use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::handshake::ServerInfo;

/// The future response to a request of the server.
pub type Reply = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RpcError>> + Send>>;

/// Handles notifications and requests of a server.
///
/// A [client](crate::Builder::handler) has one handler for all of them. [A request](crate::Options)
/// may have its own for the messages that belong to it: its progress, and the log messages and
/// requests that the server sends while it is in flight. Over HTTP, messages belong to the request on
/// whose stream they come. On stdio, and on the GET stream of the legacy era, progress belongs to the
/// request with its token, and all else to the requests in flight if they are for one
/// [caller](crate::Options::caller). A request whose future was dropped counts as in flight until the
/// server has answered it, or for a minute, or for the timeout of calls if that is longer.
///
/// The task that reads from the server calls these methods, in the order of the messages: they must
/// not block. By default notifications are ignored and requests refused.
pub trait Handler: Send + Sync {
    /// Handles a notification, for example `notifications/tools/list_changed`; parameters byte for
    /// byte. `notifications/progress` has the token of the caller's `_meta`.
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let _ = params;
        tracing::debug!(method, "a notification of the server is ignored");
    }

    /// Handles a request, for example `sampling/createMessage` (before 2026-07-28; since then servers
    /// ask in results, which reach the caller as they are). `ping` is answered by the client itself.
    ///
    /// The reply is dropped if the server cancels the request. At most 64 requests may be in flight;
    /// more are refused.
    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        let _ = params;
        let refusal = RpcError::new(
            mcp_core::jsonrpc::METHOD_NOT_FOUND,
            format!("Method not found: {method}"),
        );
        Box::pin(std::future::ready(Err(refusal)))
    }

    /// Returns the error for a request of the server that was refused because its caller is not certain;
    /// see [`Options::caller`](crate::Options::caller).
    fn unattributed(&self, method: &str, reason: Unattributed) -> RpcError {
        let text = match reason {
            Unattributed::SeveralCallers => "calls of several callers are in progress",
            Unattributed::CallersLeft => "its caller has left",
        };
        let text = format!("{method} was refused: {text}");
        RpcError::new(mcp_core::jsonrpc::INVALID_REQUEST, text)
    }

    /// Handles a line that a child wrote to stderr, truncated to 4 KiB, without its line end, and the first lines on
    /// its stdout that are no messages. At most 50 lines a second are passed on; the others are
    /// [counted](crate::Counters::stderr_dropped).
    fn stderr(&self, peer: &str, line: &str) {
        // Escaped, since the line may hold terminal control sequences.
        tracing::info!(target: "mcp_client::stderr", peer, ?line);
    }

    /// Called after the server lost the session and a new one was opened: subscriptions and settings
    /// of the old one are gone, and lists may have changed.
    fn session_renewed(&self, server: &ServerInfo) {
        let _ = server;
    }
}

/// The reason why a message of the server cannot be attributed to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattributed {
    /// The calls in flight are of several callers.
    SeveralCallers,
    /// All callers have left: their calls were cancelled or have timed out.
    CallersLeft,
}

/// The handler of a client for which none was set.
pub(crate) struct DefaultHandler;

impl Handler for DefaultHandler {}
