//! The request of a client, with everything that the relay needs, parsed once.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mcp_core::era::Era;
use mcp_core::jsonrpc::{Members, member};
use mcp_core::server::OriginalRequest;
use mcp_core::tool::{Call, ClientCapabilities, LogLevel};
use mcp_core::trace::TraceContext;
use serde_json::value::{RawValue, to_raw_value};

/// The member of `_meta` with the capabilities of a client of 2026-07-28.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The backend's timeout is shorter than the client's, so that the error can name the backend.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(250);

/// The request of a client.
pub(super) struct ClientRequest<'a> {
    pub(super) call: &'a Call,
    /// Its parameters, without those that belong to this connection only. Shared with what is sent.
    pub(super) params: Arc<Members>,
    /// The level that a client of an earlier era has set for all its requests.
    pub(super) log_level: Option<LogLevel>,
    /// Its span.
    pub(super) trace: TraceContext,
    /// The time that the client's call leaves for a backend.
    pub(super) timeout: Option<Duration>,
    /// The capabilities of its client, without extensions that only the gateway handles.
    pub(super) capabilities: Option<Arc<RawValue>>,
}

impl<'a> ClientRequest<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        let Some(origin) = call.extension::<OriginalRequest>() else {
            return Self {
                call,
                params: Arc::default(),
                log_level: None,
                trace: TraceContext::for_request(None),
                timeout: None,
                capabilities: None,
            };
        };
        let is_modern = origin.era == Era::Modern;
        let mut params = Members::read(&origin.params).unwrap_or_default();
        let meta = params.get("_meta").filter(|_| is_modern);
        let declared = meta.and_then(|meta| member(meta, CAPABILITIES));
        let capabilities = capabilities(call, declared);
        if params.get("requestState").is_some() {
            // They answer questions that the gateway has sent; without a state they are for the backend.
            params.remove("inputResponses");
        }
        for ours in ["task", "requestState"] {
            params.remove(ours);
        }
        Self {
            call,
            params: Arc::new(params),
            // In the modern era it is in the parameters.
            log_level: call.client().log_level.filter(|_| !is_modern),
            trace: origin.trace.clone(),
            timeout: Some(origin.timeout.saturating_sub(TIMEOUT_MARGIN)),
            capabilities,
        }
    }
}

fn capabilities(call: &Call, declared: Option<&str>) -> Option<Arc<RawValue>> {
    /// The capabilities of most clients that do not declare any in each request.
    static NONE: LazyLock<Option<Arc<RawValue>>> =
        LazyLock::new(|| encoded(ClientCapabilities::default()));
    if let Some(mut declared) = declared.and_then(Members::read) {
        declared.remove("extensions");
        if let Some(mut experimental) = declared.get("experimental").and_then(Members::read) {
            // The gateway removes the text itself, so every client gets it that needs it.
            experimental.remove(ClientCapabilities::STRUCTURED_ONLY);
            declared.set("experimental", &experimental.encode());
        }
        if call.supports_tasks() {
            // The gateway makes its own task of the backend's task.
            declared.set("extensions", r#"{"io.modelcontextprotocol/tasks":{}}"#);
        }
        return RawValue::from_string(declared.encode()).ok().map(Arc::from);
    }
    let can = call.capabilities();
    match can == ClientCapabilities::default() {
        true => NONE.clone(),
        false => encoded(can),
    }
}

fn encoded(capabilities: ClientCapabilities) -> Option<Arc<RawValue>> {
    to_raw_value(&capabilities.to_json()).ok().map(Arc::from)
}
