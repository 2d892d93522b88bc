//! The headers of a message in the modern era, which repeat parts of the body (2026-07-28, "Request Metadata" and "Custom
//! Headers from Tool Parameters").

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use mcp_core::http_headers::{HeaderParam, encode, header_params, may_declare, named_member};
use mcp_core::jsonrpc::{Members, string};
use mcp_core::revision::MODERN;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{HeaderList, TraceField};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The id of the session of the legacy era, if the server issued one.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision: in the legacy era since the handshake, in the modern one with every request.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The headers of the modern era; none in the others.
pub(crate) fn request_headers(
    is_modern: bool,
    method: &str,
    params: Option<&Members>,
    annotated: &[(HeaderName, HeaderValue)],
) -> HeaderList {
    let mut headers = HeaderList::new();
    if !is_modern {
        return headers;
    }
    // And for those of a trace context.
    headers.reserve(6 + annotated.len());
    headers.push((PROTOCOL_VERSION, HeaderValue::from_static(MODERN)));
    if let Some(method) = header_value(method) {
        headers.push((METHOD, method));
    }
    let name = named_member(method).and_then(|member| string(params?.get(member)?));
    if let Some(name) = name
        && let Some(name) = header_value(&name)
    {
        headers.push((NAME, name));
    }
    headers.extend_from_slice(annotated);
    headers
}

/// Returns the headers of the fields of a trace context.
pub(crate) fn trace_headers<'a>(
    fields: impl IntoIterator<Item = TraceField<'a>>,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    fields.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::try_from(value.into_owned()).ok()?;
        Some((HeaderName::from_static(name), value))
    })
}

/// Encodes a header value, using base64 if it is not plain ASCII.
pub(super) fn header_value(value: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&encode(value)).ok()
}

/// The header parameters of a server's tools, by tool name.
#[derive(Default)]
pub(crate) struct HeaderParamCache(Mutex<HashMap<String, Arc<[ToolHeader]>>>);

#[derive(Debug, PartialEq)]
struct ToolHeader {
    header: HeaderName,
    argument: HeaderParam,
}

impl HeaderParamCache {
    /// Stores the header parameters of a tool. Returns false if its annotations are invalid: such a
    /// tool must not be used.
    pub(crate) fn register(&self, peer: &str, tool: &RawValue) -> bool {
        let members = Members::read(tool.get()).unwrap_or_default();
        let Some(name) = members.get("name").and_then(string) else {
            return true;
        };
        let schema = members.get("inputSchema");
        let schema = schema.filter(|_| may_declare(tool.get()));
        let parameters = match schema.map(parameters) {
            None => Vec::new(),
            Some(Ok(parameters)) => parameters,
            Some(Err(why)) => {
                tracing::warn!(peer, tool = ?name, why, "tool skipped: invalid x-mcp-header");
                return false;
            }
        };
        let mut known = self.0.lock();
        match parameters.is_empty() {
            true => known.remove(&*name),
            false => known.insert(name.into_owned(), parameters.into()),
        };
        true
    }

    /// The headers of a `tools/call` with these parameters, if it has any.
    pub(crate) fn headers(&self, params: &Members) -> Option<HeaderList> {
        let known = self.0.lock();
        let name = string(params.get("name")?)?;
        let parameters = known.get(&*name)?.clone();
        drop(known);
        let arguments: Value = serde_json::from_str(params.get("arguments")?).ok()?;
        let value = |parameter: &ToolHeader| {
            let text = parameter.argument.text(&arguments)?;
            Some((parameter.header.clone(), header_value(&text)?))
        };
        Some(parameters.iter().filter_map(value).collect())
    }
}

/// The header parameters of a tool with this schema, or the reason why they are invalid.
fn parameters(schema: &str) -> Result<Vec<ToolHeader>, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    let declared = header_params(&schema)?.into_iter();
    let parameter = |argument: HeaderParam| {
        let header = format!("mcp-param-{}", argument.header).parse();
        let header = header.map_err(|_| "a header name is not valid".to_owned())?;
        Ok(ToolHeader { header, argument })
    };
    declared.map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn register(cache: &HeaderParamCache, properties: &Value) -> bool {
        let schema = json!({"type": "object", "properties": properties});
        let tool = json!({"name": "t", "inputSchema": schema}).to_string();
        cache.register("peer", &RawValue::from_string(tool).unwrap())
    }

    #[test]
    fn annotated_parameters_become_headers() {
        let cache = HeaderParamCache::default();
        let properties = json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {
                "n": {"type": "integer", "x-mcp-header": "N"},
                "x-mcp-header": {"type": "string"},
            }},
            "off": {"type": "boolean", "x-mcp-header": "Off"},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
        });
        assert!(register(&cache, &properties));
        let read = |params| Members::read(params).unwrap();
        let params = read(
            r#"{"name":"t","arguments":{"region":" a","deep":{"n":42},"off":false,"absent":null}}"#,
        );
        let headers = cache.headers(&params).unwrap();
        let shown: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                ("mcp-param-region", "=?base64?IGE=?="),
                ("mcp-param-n", "42"),
                ("mcp-param-off", "false"),
            ]
        );
        let other = read(r#"{"name":"u","arguments":{"region":"a"}}"#);
        assert!(cache.headers(&other).is_none());
        // A tool without cache any more is removed.
        assert!(register(&cache, &json!({"region": {"type": "string"}})));
        assert!(cache.headers(&params).is_none());
    }

    #[test]
    fn invalid_annotations_are_rejected() {
        for property in [
            json!({"type": "string", "x-mcp-header": "a b"}),
            json!({"type": "number", "x-mcp-header": "A"}),
            json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]}),
        ] {
            let properties = json!({"a": property});
            assert!(
                !register(&HeaderParamCache::default(), &properties),
                "{properties}"
            );
        }
    }
}
