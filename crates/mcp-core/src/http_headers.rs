//! HTTP headers that repeat parts of the body in the modern era, so that proxies can route by them
//! (2026-07-28, "Request Metadata" and "Custom Headers from Tool Parameters"). The client writes them,
//! the server checks them.
//!
//! A tool declares that an argument is repeated with
//! `#[schemars(extend("x-mcp-header" = "Region"))]` on the field.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AsHeaderName, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// The version of the protocol, in every era.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request of the modern era.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The member of the parameters that [`named_member`] names.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

const KEYWORD: &str = "x-mcp-header";

/// Returns the value of a header as text; one that is not ASCII becomes empty and equals no valid value.
pub fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).map(ascii)
}

fn ascii(value: &HeaderValue) -> &str {
    let bytes = value.as_bytes();
    match bytes.is_ascii() {
        true => str::from_utf8(bytes).unwrap_or_default(),
        false => "",
    }
}

/// Returns a header of W3C Trace Context or W3C Baggage. Its value is a list that may be on several lines (3.3.1.1;
/// 3.3). A line that is there twice counts once: some clients send every header twice.
pub(crate) fn list<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    let mut lines: Vec<&str> = Vec::new();
    for line in headers.get_all(name).iter().map(ascii) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let value = match lines[..] {
        [line] => Cow::Borrowed(line),
        _ => Cow::Owned(lines.join(",")),
    };
    Some(value).filter(|value| !value.is_empty())
}

/// True if this JSON may declare an argument with a header.
pub fn may_declare(schema: &str) -> bool {
    schema.contains(KEYWORD)
}

/// The member of the parameters that `Mcp-Name` repeats.
pub fn named_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Encodes a header value, with base64 if it is not plain ASCII.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_visible = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_trimmed = !value.starts_with(' ') && !value.ends_with(' ');
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if is_visible && is_trimmed && !looks_encoded {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value)))
}

/// Decodes a header value; `None` if its base64 is invalid.
pub fn decode(header: &str) -> Option<Cow<'_, str>> {
    let header = header.trim_matches([' ', '\t']);
    let coded = header.strip_prefix("=?base64?");
    let Some(coded) = coded.and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(Cow::Borrowed(header));
    };
    let bytes = STANDARD.decode(coded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// An argument of a tool that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParam {
    /// The header's name after `Mcp-Param-`.
    pub header: String,
    /// The names of the properties that lead to it.
    path: Vec<String>,
}

impl HeaderParam {
    /// The argument, where the call has it.
    pub fn find<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let mut path = self.path.iter();
        let found = path.try_fold(arguments, |value, name| value.get(name));
        found.filter(|value| !value.is_null())
    }

    /// The argument as text for its header, not encoded yet.
    pub fn text(&self, arguments: &Value) -> Option<String> {
        match self.find(arguments)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// The arguments of an input schema that are repeated in headers.
///
/// # Errors
/// Returned for a declaration that the specification forbids: clients drop such a tool.
pub fn header_params(schema: &Value) -> Result<Vec<HeaderParam>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    if found.len() != occurrences(schema) {
        return Err(format!(
            "{KEYWORD} must be part of a property of the arguments"
        ));
    }
    Ok(found)
}

fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<HeaderParam>,
) -> Result<(), String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(KEYWORD) {
            let header = header.as_str().unwrap_or_default();
            check(header, property, found).map_err(|why| format!("{KEYWORD} of {name}: {why}"))?;
            found.push(HeaderParam {
                header: header.to_owned(),
                path: path.clone(),
            });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

fn check(header: &str, property: &Value, found: &[HeaderParam]) -> Result<(), &'static str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if header.is_empty() || !header.chars().all(is_token) {
        return Err("is not a valid header name");
    }
    if found
        .iter()
        .any(|other| other.header.eq_ignore_ascii_case(header))
    {
        return Err("is used twice");
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(()),
        _ => Err("only strings, integers and booleans fit into a header"),
    }
}

/// Counts the keyword anywhere in the schema. A property that only has this name does not count.
fn occurrences(schema: &Value) -> usize {
    match schema {
        Value::Array(items) => items.iter().map(occurrences).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                (KEYWORD, _) => 1,
                ("const" | "default" | "enum" | "examples", _) => 0,
                (
                    "properties" | "$defs" | "definitions" | "patternProperties",
                    Value::Object(named),
                ) => named.values().map(occurrences).sum(),
                (_, value) => occurrences(value),
            })
            .sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_a_trace_on_several_lines_are_one() {
        for (lines, joined) in [
            (&["a=1"][..], Some("a=1")),
            (&["a=1", "b=2"], Some("a=1,b=2")),
            (&["a=1", "a=1"], Some("a=1")),
            (&["", "a=1"], Some(",a=1")),
            (&["", ""], None),
            (&[], None),
        ] {
            let name = HeaderName::from_static("baggage");
            let lines = lines.iter().copied().map(HeaderValue::from_static);
            let headers = HeaderMap::from_iter(lines.map(|line| (name.clone(), line)));
            assert_eq!(list(&headers, "baggage").as_deref(), joined);
        }
    }

    #[test]
    fn argument_is_found_by_its_path() {
        let schema = json!({"properties": {
            "where": {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
            }},
            "query": {"type": "string"},
        }});
        let found = header_params(&schema).unwrap();
        assert_eq!(found.len(), 1);
        let arguments = json!({"where": {"region": "eu"}});
        assert_eq!(found[0].find(&arguments), Some(&json!("eu")));
        assert_eq!(found[0].find(&json!({"where": {"region": null}})), None);
        assert_eq!(found[0].find(&json!({})), None);
    }

    #[test]
    fn values_survive_encoding() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("us west 1", "us west 1"),
            ("", ""),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header).as_deref(), Some(value));
        }
        assert_eq!(decode(" echo\t").as_deref(), Some("echo"));
        for bad in ["=?base64?ZWNobw?=", "=?base64?/w==?="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        let other = "=?BASE64?ZWNobw==?=";
        assert_eq!(decode(other).as_deref(), Some(other));
    }

    #[test]
    fn invalid_declarations_are_refused() {
        let with = |property| json!({"properties": {"a": property}});
        let item = json!({"type": "string", "x-mcp-header": "A"});
        let lower = json!({"type": "string", "x-mcp-header": "a"});
        for schema in [
            with(json!({"type": "string", "x-mcp-header": ""})),
            with(json!({"type": "string", "x-mcp-header": "two words"})),
            with(json!({"type": "string", "x-mcp-header": "a\r\nb"})),
            with(json!({"type": "string", "x-mcp-header": "Région"})),
            with(json!({"type": "string", "x-mcp-header": 1})),
            with(json!({"type": "number", "x-mcp-header": "A"})),
            with(json!({"type": "object", "x-mcp-header": "A"})),
            with(json!({"x-mcp-header": "A"})),
            with(json!({"type": "array", "items": item})),
            json!({"properties": {"a": item, "b": lower}}),
            json!({"anyOf": [with(item.clone())]}),
        ] {
            assert!(header_params(&schema).is_err(), "{schema}");
        }
        let named = json!({"x-mcp-header": {"type": "string"}});
        assert_eq!(header_params(&json!({"properties": named})), Ok(Vec::new()));
    }
}
