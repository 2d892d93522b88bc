//! Notifications and requests of a backend that belong to no call.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use mcp_client::{Handler, Reply, RpcError, ServerInfo, Unattributed};
use mcp_core::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND};
use serde_json::Value;
use serde_json::value::RawValue;
use upstream::redact::redacted;

use super::Backend;
use crate::config::Isolation;

/// Handles the notifications of a backend. The reference is weak, since the backend owns the client
/// that owns this handler.
struct Notifications(Weak<Backend>);

/// Returns the handler of the messages of a backend that belong to no call.
pub(super) fn handler(backend: &Weak<Backend>) -> Arc<dyn Handler> {
    Arc::new(Notifications(Weak::clone(backend)))
}

impl Handler for Notifications {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let Some(backend) = self.0.upgrade() else {
            return;
        };
        match method {
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => backend.lists_changed.notify_one(),
            "notifications/resources/updated" => {
                if let Some(uri) = uri(params) {
                    backend.updated(uri);
                }
            }
            "notifications/message" => {
                let params = redacted(params.map_or("", RawValue::get));
                tracing::debug!(backend = %backend.key, ?params, "log message");
            }
            _ => {}
        }
    }

    /// Outside of a call there is no client to ask; the gateway itself has no roots. During calls of several
    /// clients, `roots/list` is refused like any question: an empty list would be a statement about clients
    /// that were not asked, and a server may take it for "no limits".
    fn request(&self, method: &str, _: Option<&RawValue>) -> Reply {
        let answer = if method == "roots/list" {
            RawValue::from_string(r#"{"roots":[]}"#.to_owned())
                .map_err(|_| RpcError::new(INTERNAL_ERROR, "Internal error"))
        } else {
            let text = "Only during a call is there a client that can be asked";
            Err(RpcError::new(METHOD_NOT_FOUND, text))
        };
        Box::pin(std::future::ready(answer))
    }

    fn unattributed(&self, method: &str, reason: Unattributed) -> RpcError {
        let Some(backend) = self.0.upgrade() else {
            return RpcError::new(INTERNAL_ERROR, "Internal error");
        };
        let text = match reason {
            Unattributed::CallersLeft => "The client that could answer has left.".to_owned(),
            Unattributed::SeveralCallers => backend.refusal_advice(),
        };
        if backend.warned_of_refusal.swap(true, Ordering::Relaxed) {
            tracing::debug!(backend = %backend.key, method, "refused a question: {text}");
        } else {
            tracing::warn!(backend = %backend.key, method, "refused a question: {text}");
        }
        RpcError::new(INVALID_REQUEST, text)
    }

    fn stderr(&self, _: &str, line: &str) {
        if let Some(backend) = self.0.upgrade() {
            let line = backend.keep_line(line);
            tracing::info!(target: "mcp_gateway::stderr", backend = %backend.key, ?line);
        }
    }

    fn session_renewed(&self, _: &ServerInfo) {
        if let Some(backend) = self.0.upgrade() {
            tracing::info!(backend = %backend.key, "started a new session; the server did not know the old one");
            backend.lists_changed.notify_one();
        }
    }
}

impl Backend {
    /// Returns the reason why a question is refused while several clients could be meant, and the setting
    /// that helps.
    pub(crate) fn refusal_advice(&self) -> String {
        let key = &self.key;
        let advice = match self.config.isolation {
            Isolation::Shared => format!(
                "`isolation = \"session\"` or `isolation = \"principal\"` in [backends.{key}] gives \
                 each client its own process or session; clients of 2026-07-28 need a token for that \
                 (`--token-file`)"
            ),
            Isolation::Session => format!(
                "clients of 2026-07-28 have no session, so those with the same token share a process or \
                 session; give each its own token (`--token-file`) and set `isolation = \"principal\"` in \
                 [backends.{key}]"
            ),
            Isolation::Principal => {
                "these clients have neither a token nor a session, so they share a process \
                                     or session; set up tokens (`--token-file`)"
                    .to_owned()
            }
        };
        format!(
            "Several calls of the backend {key} are in progress, or were left in the last minute, so the \
             client to ask is not certain: {advice}. `gateway_restart` ends calls that were left."
        )
    }

    /// Returns the handler of messages that belong to no call.
    pub(crate) fn notifications(&self) -> Arc<dyn Handler> {
        Arc::clone(&self.notifications)
    }
}

fn uri(params: Option<&RawValue>) -> Option<String> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    Some(params["uri"].as_str()?.to_owned())
}
