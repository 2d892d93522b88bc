//! What a backend says of its own accord, apart from any call.

use std::sync::{Arc, Weak};

use mcp_client::{Handler, Reply, RpcError, ServerInfo};
use mcp_core::server::ServerChange;
use serde::Deserialize;
use serde_json::value::RawValue;
use upstream::redact::redacted;

use super::Backend;

/// Handles the notifications of a backend. Holds it weakly: the backend holds the client that holds
/// this.
struct Notifications(Weak<Backend>);

impl Handler for Notifications {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let Some(backend) = self.0.upgrade() else {
            return;
        };
        match method {
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => backend.stale.notify_one(),
            "notifications/resources/updated" => {
                if let Some(uri) = uri(params) {
                    backend
                        .signals
                        .changes
                        .announce(ServerChange::Resource(uri));
                }
            }
            "notifications/message" => {
                let params = redacted(params.map_or("", RawValue::get));
                tracing::debug!(backend = %backend.key, ?params, "a log message");
            }
            _ => {}
        }
    }

    /// Apart from any call there is no client to ask; the gateway itself has no roots.
    fn request(&self, method: &str, _: Option<&RawValue>) -> Reply {
        let answer = if method == "roots/list" {
            RawValue::from_string(r#"{"roots":[]}"#.to_owned())
                .map_err(|_| RpcError::new(mcp_core::jsonrpc::INTERNAL_ERROR, "Internal error"))
        } else {
            let words = "There is no client to ask apart from a call";
            Err(RpcError::new(mcp_core::jsonrpc::METHOD_NOT_FOUND, words))
        };
        Box::pin(std::future::ready(answer))
    }

    fn stderr(&self, _: &str, line: &str) {
        if let Some(backend) = self.0.upgrade() {
            let line = redacted(line);
            tracing::info!(target: "mcp_gateway::stderr", backend = %backend.key, ?line);
        }
    }

    fn session_renewed(&self, _: &ServerInfo) {
        if let Some(backend) = self.0.upgrade() {
            tracing::info!(backend = %backend.key, "had forgotten its session and has a new one");
            backend.stale.notify_one();
        }
    }
}

impl Backend {
    /// The handler of what it says of its own accord, also while it answers something.
    pub(crate) fn notifications(self: &Arc<Self>) -> Arc<dyn Handler> {
        Arc::new(Notifications(Arc::downgrade(self)))
    }
}

fn uri(params: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let params: Params = serde_json::from_str(params?.get()).ok()?;
    Some(params.uri)
}
