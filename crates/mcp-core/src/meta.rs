//! The `_meta` of a request's parameters.

use serde_json::value::RawValue;

use crate::jsonrpc::{Entries, Id, string};
use crate::trace::{TraceContext, TraceFields};

/// The known members of `_meta`, each not parsed yet. `null` is as absent: some clients write members that are not set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meta<'a> {
    progress_token: Option<&'a RawValue>,
    pub(crate) version: Option<&'a RawValue>,
    pub(crate) capabilities: Option<&'a RawValue>,
    pub(crate) log_level: Option<&'a RawValue>,
    pub(crate) client_info: Option<&'a RawValue>,
    traceparent: Option<&'a RawValue>,
    tracestate: Option<&'a RawValue>,
    baggage: Option<&'a RawValue>,
    /// The reason why it cannot be used.
    pub(crate) fault: Option<&'static str>,
}

impl<'a> Meta<'a> {
    pub(crate) fn read(meta: &'a RawValue) -> Self {
        let Ok(mut members) = Entries::read(meta.get()) else {
            return Self {
                fault: Some("must be an object"),
                ..Self::default()
            };
        };
        Self {
            progress_token: members.get("progressToken"),
            version: members.get("io.modelcontextprotocol/protocolVersion"),
            capabilities: members.get("io.modelcontextprotocol/clientCapabilities"),
            log_level: members.get("io.modelcontextprotocol/logLevel"),
            client_info: members.get("io.modelcontextprotocol/clientInfo"),
            traceparent: members.get("traceparent"),
            tracestate: members.get("tracestate"),
            baggage: members.get("baggage"),
            // After all of them.
            fault: members.twice.map(|_| "has a member twice"),
        }
    }

    /// The token for progress notifications: like an id, a string or an integer.
    pub(crate) fn progress_token(&self) -> Option<&'a RawValue> {
        self.progress_token.filter(|token| Id::new(token).is_some())
    }

    /// The trace that the client continues, if it is valid.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        let text = |value: Option<&'a RawValue>| string(value?.get());
        let parent = text(self.traceparent)?;
        TraceContext::parse(TraceFields {
            parent: Some(&parent),
            state: text(self.tracestate).as_deref(),
            baggage: text(self.baggage).as_deref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_without_duplicates_has_no_fault() {
        let version = r#""io.modelcontextprotocol/protocolVersion":"#;
        let (object, twice) = (Some("must be an object"), Some("has a member twice"));
        for (text, fault, found) in [
            ("{}".to_owned(), None, None),
            (format!(r#"{{"x":[1],{version}"a"}}"#), None, Some("\"a\"")),
            (format!("{{{version}1,{version}2}}"), twice, Some("2")),
            (format!("{{{version}null}}"), None, None),
            (format!("{{{version}null,{version}2}}"), twice, Some("2")),
            (format!(r#"[{{{version}1}},2]"#), object, None),
            ("\"x\"".to_owned(), object, None),
            ("true".to_owned(), object, None),
            ("-1".to_owned(), object, None),
            ("1".to_owned(), object, None),
            ("1.5".to_owned(), object, None),
        ] {
            let raw = RawValue::from_string(text.clone()).unwrap();
            let meta = Meta::read(&raw);
            assert_eq!(meta.fault, fault, "{text}");
            assert_eq!(meta.version.map(RawValue::get), found, "{text}");
        }
    }
}
