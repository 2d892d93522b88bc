//! Records the requests that no backend answers: of the gateway's own tools, and refused ones.
//!
//! Relayed requests record themselves, with their backend; see [`crate::relay`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_access::CALL_TOOL;
use gateway_store::events::{
    ArgumentTypes, Event, EventLog, EventStatus, FinishedRequest, KnownArguments, Outcome, TraceId,
    kind,
};
use mcp_core::jsonrpc::{member, string};
use mcp_core::server::{Audit, AuditedRequest, RequestEnd};
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use upstream::redact::redacted;

use crate::catalog::Catalog;

/// Refusals of one caller within this time are one event, so that a flood does not fill the log.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);

/// Limit for the callers whose refusals are counted.
const MAX_REFUSED_CALLERS: usize = 1_000;

/// Records requests in the event log.
pub(crate) struct RequestAudit {
    log: Arc<EventLog>,
    /// The catalog of the gateway, which knows the arguments of tools.
    catalog: Arc<Mutex<Arc<Catalog>>>,
    refusals: Mutex<HashMap<Option<Arc<str>>, Refusals>>,
}

/// The refusals of one caller since its last event.
struct Refusals {
    reported: Instant,
    unreported: u64,
}

impl RequestAudit {
    pub(crate) fn new(log: Arc<EventLog>, catalog: Arc<Mutex<Arc<Catalog>>>) -> Self {
        Self {
            log,
            catalog,
            refusals: Mutex::default(),
        }
    }

    /// The arguments of a call that was denied, as its event has them.
    fn arguments(&self, tool: &str, arguments: &RawValue) -> ArgumentTypes {
        let catalog = Arc::clone(&self.catalog.lock());
        let mut tools = catalog.lists.tools.iter();
        let found = tools.find(|(definition, _)| definition.name == tool);
        let known = found.map(|(definition, _)| KnownArguments::new(&definition.input_schema));
        self.log
            .arguments(tool, arguments, &known.unwrap_or_default())
    }

    /// Counts a refusal. Returns the number that no event has reported, if it is time for one.
    fn count(&self, caller: Option<&Arc<str>>, now: Instant) -> Option<u64> {
        let mut refusals = self.refusals.lock();
        let caller = caller.cloned();
        if refusals.len() >= MAX_REFUSED_CALLERS && !refusals.contains_key(&caller) {
            refusals.clear();
        }
        let known = refusals.entry(caller).or_insert(Refusals {
            reported: now.checked_sub(REFUSAL_INTERVAL).unwrap_or(now),
            unreported: 0,
        });
        known.unreported += 1;
        let is_due = now.saturating_duration_since(known.reported) >= REFUSAL_INTERVAL;
        is_due.then(|| {
            known.reported = now;
            std::mem::take(&mut known.unreported)
        })
    }
}

impl Audit for RequestAudit {
    fn ended(&self, request: &AuditedRequest<'_>) {
        let trace = request.trace.map(TraceId::from);
        let (mut outcome, error_code) = match request.end {
            RequestEnd::Done => (Outcome::Ok, None),
            RequestEnd::Failed(code) => (Outcome::Failed, code.map(i64::from)),
            RequestEnd::Cancelled => (Outcome::Cancelled, None),
        };
        if request.denial.is_some() {
            outcome = Outcome::Denied;
        }
        let mut item = request.item.as_deref().unwrap_or_default().to_owned();
        let mut arguments = request.arguments.filter(|_| request.denial.is_some());
        // What `call_tool` would have called.
        if item == CALL_TOOL
            && let Some(given) = arguments
            && let Some(name) = member(given.get(), "name").and_then(string)
        {
            let called = member(given.get(), "arguments");
            arguments = called.and_then(|called| serde_json::from_str(called).ok());
            item = name.into_owned();
        }
        let arguments = arguments.map(|arguments| self.arguments(&item, arguments));
        // It may name nothing, and then be anything.
        let item = redacted(&item);
        let finished = FinishedRequest {
            method: Some(request.method.into()),
            item: item.into(),
            outcome,
            denied_by: request.denial.map(|denial| denial.by),
            denial: request.denial.map(|denial| denial.reason.as_str().into()),
            principal: request.caller.cloned(),
            view: request.view.cloned(),
            permission: request.permission.cloned(),
            sender: request.sender,
            backend: request.target.cloned(),
            duration: request.took,
            request_bytes: request.request_bytes,
            response_bytes: request.response_bytes,
            has_hidden_characters: false,
            arguments,
            error_code,
            count: 0,
        };
        let trace = trace.unwrap_or_else(TraceId::random);
        self.log.record(Event::finished(trace, finished));
    }

    fn refused(&self, caller: Option<&Arc<str>>, kind: &'static str) {
        if let Some(count) = self.count(caller, Instant::now()) {
            let facts =
                json!({"principal": caller.map(|name| &**name), "reason": kind, "count": count});
            let event = Event::new(kind::REQUEST_REFUSED, EventStatus::Failure, facts);
            self.log.record(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_store::events::{Retention, StoreLocation};

    #[test]
    fn refusals_of_a_caller_are_one_event_in_ten_seconds() {
        let retention = Retention {
            age: Duration::MAX,
            rows: 1,
            bytes: 1,
        };
        let log = EventLog::start(StoreLocation::Memory, retention).unwrap();
        let audit = RequestAudit::new(Arc::new(log), Arc::default());
        let start = Instant::now() + REFUSAL_INTERVAL;
        let at = |seconds| start + Duration::from_secs(seconds);
        let ada: Arc<str> = "ada".into();
        assert_eq!(audit.count(Some(&ada), at(0)), Some(1));
        assert_eq!(audit.count(None, at(0)), Some(1));
        assert_eq!(audit.count(Some(&ada), at(1)), None);
        assert_eq!(audit.count(Some(&ada), at(9)), None);
        assert_eq!(audit.count(Some(&ada), at(10)), Some(3));
        for n in 0..2 * MAX_REFUSED_CALLERS {
            audit.count(Some(&n.to_string().into()), at(11));
        }
        assert!(audit.refusals.lock().len() <= MAX_REFUSED_CALLERS);
    }
}
