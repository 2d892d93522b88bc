//! The request of a client, with all that the relay wants to know of it, read once.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::era::Era;
use mcp_core::jsonrpc::{Members, string};
use mcp_core::server::OriginalRequest;
use mcp_core::tool::Call;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, json};

use crate::events::TraceId;

/// The backend's time ends before the client's, so that the error can name it.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(250);

/// The request that a call answers.
pub(super) struct ClientRequest<'a> {
    pub(super) call: &'a Call,
    /// Its parameters, as they can be passed on to any era.
    pub(super) params: Members,
    /// The trace that it says it is part of, in its headers or its `_meta`; a new one where it says
    /// nothing that can be read.
    pub(super) trace: TraceId,
    /// How long its client waits for a backend, where that is known.
    pub(super) timeout: Option<Duration>,
    /// The capabilities of its client, without those that concern the gateway alone.
    pub(super) capabilities: Option<Arc<RawValue>>,
}

impl<'a> ClientRequest<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        let Some(origin) = call.extension::<OriginalRequest>() else {
            return Self {
                call,
                params: Members::default(),
                trace: TraceId::random(),
                timeout: None,
                capabilities: None,
            };
        };
        let is_modern = origin.era == Era::Modern;
        let mut params = origin.params.clone();
        // A modern backend has to be told which log messages are wanted, where the client has said so
        // in another way.
        let level = call.client().log_level.filter(|_| !is_modern);
        let is_read = |meta: &&str| is_modern || level.is_some() || meta.contains("traceparent");
        let meta = params.get("_meta").filter(is_read).and_then(Members::read);
        let mut meta = meta.unwrap_or_default();
        let in_header = || TraceId::from_traceparent(origin.traceparent.as_deref()?);
        let in_meta = || TraceId::from_traceparent(&string(meta.get("traceparent")?)?);
        let trace = in_header().or_else(in_meta);
        let capabilities = capabilities(call, &meta).map(Arc::from);
        if let Some(level) = level {
            let level = json!(level).to_string();
            meta.set("io.modelcontextprotocol/logLevel", &level);
            params.set("_meta", &meta.encode());
        }
        for ours in ["task", "inputResponses", "requestState"] {
            params.remove(ours);
        }
        Self {
            call,
            params,
            trace: trace.unwrap_or_else(TraceId::random),
            timeout: Some(origin.timeout.saturating_sub(TIMEOUT_MARGIN)),
            capabilities,
        }
    }
}

fn capabilities(call: &Call, meta: &Members) -> Option<Box<RawValue>> {
    let declared = meta.get("io.modelcontextprotocol/clientCapabilities");
    if let Some(mut declared) = declared.and_then(Members::read) {
        declared.remove("extensions");
        if call.supports_tasks() {
            // Its task becomes one of the gateway's.
            declared.set("extensions", r#"{"io.modelcontextprotocol/tasks":{}}"#);
        }
        return RawValue::from_string(declared.encode()).ok();
    }
    let can = call.capabilities();
    let declared = [
        ("elicitation", can.elicitation),
        ("sampling", can.sampling),
        ("roots", can.roots),
    ];
    let declared = declared.into_iter().filter(|(_, can)| *can);
    let declared: Map<_, _> = declared
        .map(|(name, _)| (name.to_owned(), json!({})))
        .collect();
    to_raw_value(&declared).ok()
}
