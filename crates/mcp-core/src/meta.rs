//! The `_meta` of a request's parameters.

use serde_json::value::RawValue;

use crate::jsonrpc::{Id, Known, string};
use crate::trace::{TraceContext, TraceFields};

/// The names of the known members of `_meta`.
const NAMES: [&str; 8] = [
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/clientInfo",
    "traceparent",
    "tracestate",
    "baggage",
];

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
    /// The `_meta` of these parameters, if they are an object that has it once.
    pub(crate) fn of_params(params: &'a RawValue) -> Option<Self> {
        let known = Known::read(params.get(), &["_meta"]).ok()?;
        let [meta] = known.present();
        meta.filter(|_| known.is_twice == [false]).map(Self::read)
    }

    pub(crate) fn read(meta: &'a RawValue) -> Self {
        let Ok(known) = Known::read(meta.get(), &NAMES) else {
            return Self {
                fault: Some("must be an object"),
                ..Self::default()
            };
        };
        let [
            progress_token,
            version,
            capabilities,
            log_level,
            client_info,
            traceparent,
            tracestate,
            baggage,
        ] = known.present();
        Self {
            progress_token,
            version,
            capabilities,
            log_level,
            client_info,
            traceparent,
            tracestate,
            baggage,
            fault: known.twice(&NAMES).map(|_| "has a member twice"),
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
