//! The `_meta` of a request's parameters, read in the same pass as they are.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::jsonrpc::{Id, string};
use crate::trace::{TraceContext, TraceFields};

/// The known members of `_meta`, each not parsed yet.
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
    /// The reason why it cannot be used. An error would end the pass over the parameters.
    pub(crate) fault: Option<&'static str>,
}

impl<'a> Meta<'a> {
    /// The `_meta` of these parameters, if they are an object that has it once.
    pub(crate) fn of_params(params: &'a RawValue) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "_meta")]
            meta: Option<Meta<'a>>,
        }
        // A serde struct would read an array as its fields in order.
        let object = params.get().starts_with('{').then(|| params.get())?;
        let Params { meta } = serde_json::from_str(object).ok()?;
        meta
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

    fn with_fault(fault: &'static str) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "progressToken")]
    ProgressToken,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    Version,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    Capabilities,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    LogLevel,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    ClientInfo,
    #[serde(rename = "traceparent")]
    Traceparent,
    #[serde(rename = "tracestate")]
    Tracestate,
    #[serde(rename = "baggage")]
    Baggage,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

/// The meaning of a value that is not an object.
fn not_an_object<'a, E>() -> Result<Meta<'a>, E> {
    Ok(Meta::with_fault("must be an object"))
}

impl<'de> Visitor<'de> for Reader {
    type Value = Meta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta<'de>, A::Error> {
        let mut meta = Meta::default();
        let mut seen = [false; 8];
        while let Some(key) = map.next_key::<Key>()? {
            let (at, member) = match key {
                Key::ProgressToken => (0, &mut meta.progress_token),
                Key::Version => (1, &mut meta.version),
                Key::Capabilities => (2, &mut meta.capabilities),
                Key::LogLevel => (3, &mut meta.log_level),
                Key::ClientInfo => (4, &mut meta.client_info),
                Key::Traceparent => (5, &mut meta.traceparent),
                Key::Tracestate => (6, &mut meta.tracestate),
                Key::Baggage => (7, &mut meta.baggage),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // `null` is as absent: some clients write members that are not set.
            *member = map.next_value::<Option<_>>()?;
            if std::mem::replace(&mut seen[at], true) {
                meta.fault = Some("has a member twice");
            }
        }
        Ok(meta)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Meta<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        not_an_object()
    }

    fn visit_str<E>(self, _: &str) -> Result<Meta<'de>, E> {
        not_an_object()
    }

    fn visit_bool<E>(self, _: bool) -> Result<Meta<'de>, E> {
        not_an_object()
    }

    fn visit_i64<E>(self, _: i64) -> Result<Meta<'de>, E> {
        not_an_object()
    }

    fn visit_u64<E>(self, _: u64) -> Result<Meta<'de>, E> {
        not_an_object()
    }

    fn visit_f64<E>(self, _: f64) -> Result<Meta<'de>, E> {
        not_an_object()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_without_duplicates_has_no_fault() {
        let version = r#""io.modelcontextprotocol/protocolVersion":"#;
        let object = Some("must be an object");
        for (text, fault, found) in [
            ("{}".to_owned(), None, None),
            (format!(r#"{{"x":[1],{version}"a"}}"#), None, Some("\"a\"")),
            (
                format!("{{{version}1,{version}2}}"),
                Some("has a member twice"),
                Some("2"),
            ),
            (format!("{{{version}null}}"), None, None),
            (
                format!("{{{version}null,{version}2}}"),
                Some("has a member twice"),
                Some("2"),
            ),
            (format!(r#"[{{{version}1}},2]"#), object, None),
            ("\"x\"".to_owned(), object, None),
            ("true".to_owned(), object, None),
            ("-1".to_owned(), object, None),
            ("1".to_owned(), object, None),
            ("1.5".to_owned(), object, None),
        ] {
            let meta: Meta<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(meta.fault, fault, "{text}");
            assert_eq!(meta.version.map(RawValue::get), found, "{text}");
        }
    }

    #[test]
    fn progress_token_is_a_string_or_an_integer() {
        for (token, is_valid) in [
            ("\"a\"", true),
            ("7", true),
            ("1.5", false),
            ("[1]", false),
            ("null", false),
        ] {
            let text = format!(r#"{{"progressToken":{token}}}"#);
            let meta: Meta<'_> = serde_json::from_str(&text).unwrap();
            let found = meta.progress_token().map(RawValue::get);
            assert_eq!(found, is_valid.then_some(token));
        }
    }
}
