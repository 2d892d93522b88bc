//! Records the requests that no backend answers: of the gateway's own tools, and refused ones.
//!
//! Relayed requests record themselves, with their backend; see [`crate::relay`].

use std::sync::Arc;

use gateway_access::CALL_TOOL;
use gateway_store::events::{
    ArgumentTypes, Event, EventLog, EventStatus, FinishedRequest, KnownArguments, Outcome,
    OwnTexts, TraceId, kind, trace_of,
};
use mcp_core::jsonrpc::{member, string};
use mcp_core::server::{Audit, AuditedRequest, DeniedBy, RequestEnd};
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use upstream::redact::redacted;

use crate::catalog::MergedCatalog;
use crate::config::BackendKey;

/// Records requests in the event log.
pub(crate) struct RequestAudit {
    log: Arc<EventLog>,
    /// The catalog of the gateway, which knows the arguments of tools.
    catalog: Arc<Mutex<Arc<MergedCatalog>>>,
}

impl RequestAudit {
    pub(crate) fn new(log: Arc<EventLog>, catalog: Arc<Mutex<Arc<MergedCatalog>>>) -> Self {
        Self { log, catalog }
    }

    /// The arguments of a call that was denied, or is about no tool, as its event has them.
    fn arguments(&self, tool: &str, arguments: &RawValue) -> ArgumentTypes {
        let catalog = Arc::clone(&self.catalog.lock());
        let mut tools = catalog.lists.tools.iter();
        let found = tools.find(|(definition, _)| definition.name == tool);
        let known = found.map(|(definition, _)| KnownArguments::new(&definition.input_schema));
        self.log
            .arguments(tool, arguments, &known.unwrap_or_default())
    }
}

impl Audit for RequestAudit {
    fn ended(&self, request: &AuditedRequest<'_>) {
        let trace = request.trace.map(trace_of);
        let (mut outcome, error_code) = match request.end {
            RequestEnd::Done => (Outcome::Ok, None),
            RequestEnd::Failed(code) => (Outcome::Failed, code.map(i64::from)),
            RequestEnd::Cancelled => (Outcome::Cancelled, None),
        };
        if request.denial.is_some() {
            outcome = Outcome::Denied;
        }
        let mut item = request.item.as_deref().unwrap_or_default().to_owned();
        let mut arguments = request.arguments;
        // What `call_tool` would have called.
        if item == CALL_TOOL
            && (request.denial.is_some() || request.failure.is_some())
            && let Some(given) = arguments
            && let Some(name) = member(given.get(), "name").and_then(string)
        {
            let called = member(given.get(), "arguments");
            arguments = called.and_then(|called| serde_json::from_str(called).ok());
            item = name.into_owned();
        }
        // A tool that is hidden from its caller is named like one that does not exist.
        let is_unknown = request.kind == Some("tool_not_found");
        if is_unknown
            && let Some((key, tool)) = item.split_once([':', '.'])
            && BackendKey::parse(key).is_ok()
        {
            item = format!("{key}__{tool}");
        }
        let arguments = arguments.filter(|_| is_unknown || request.denial.is_some());
        let arguments = arguments.map(|arguments| self.arguments(&item, arguments));
        // It may name nothing, and then be anything.
        let item = redacted(&item);
        let mut finished = FinishedRequest {
            method: Some(request.method.into()),
            item: item.into(),
            outcome,
            denied_by: request.denial.map(|denial| denial.by),
            denial: request.denial.map(|denial| denial.reason.as_str().into()),
            principal: request.principal.cloned(),
            view: request.view.cloned(),
            permission: request.permission.cloned(),
            client: request.client.clone(),
            address: request.address,
            backend: request.target.cloned(),
            duration: request.took,
            request_bytes: request.params.len(),
            response_bytes: request.response_bytes,
            arguments,
            error_code,
            ..FinishedRequest::default()
        };
        if outcome != Outcome::Ok {
            let kind = match request.denial.map(|denial| denial.by) {
                Some(DeniedBy::Limit) => "rate_limited",
                // Its client was told that the item does not exist, and finds its own events by their kind.
                Some(DeniedBy::Role | DeniedBy::View) => request.kind.unwrap_or("tool_not_found"),
                Some(_) => "forbidden",
                None => request.kind.unwrap_or("internal"),
            };
            let text = request.failure.unwrap_or_default();
            let own = OwnTexts::of_params(request.params);
            match request.end {
                RequestEnd::Failed(None) => finished.fail_with_content(kind, text, &own),
                _ => finished.fail(kind, text, &own),
            }
        }
        let trace = trace.unwrap_or_else(TraceId::new_v4);
        self.log.record(Event::finished(trace, finished));
    }

    fn refused(&self, principal: Option<&Arc<str>>, kind: &'static str) {
        let facts = json!({"principal": principal.map(|name| &**name), "reason": kind});
        let event = Event::new(kind::REQUEST_REFUSED, EventStatus::Failure, facts);
        self.log.record(event);
    }
}
