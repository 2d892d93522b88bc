//! Parameters of tools that are repeated in headers: `x-mcp-header` (2026-07-28, "Custom Headers
//! from Tool Parameters").

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderName, HeaderValue};
use mcp_core::jsonrpc::{Members, string};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::headers::encoded;

const ANNOTATION: &str = "x-mcp-header";

/// What the tools of one server want in headers.
#[derive(Default)]
pub(crate) struct Annotations(Mutex<HashMap<String, Arc<[Parameter]>>>);

/// One annotated parameter.
#[derive(Debug, PartialEq)]
struct Parameter {
    header: HeaderName,
    /// The properties that lead to it.
    path: Vec<String>,
}

impl Annotations {
    /// Keeps what a definition says. False if its annotations are not valid: then the tool must not
    /// be offered to anybody.
    pub(crate) fn learn(&self, peer: &str, tool: &RawValue) -> bool {
        #[derive(Deserialize)]
        struct Tool {
            name: String,
        }
        let is_annotated = tool.get().contains(ANNOTATION);
        let Ok(Tool { name }) = serde_json::from_str(tool.get()) else {
            return true;
        };
        let parameters = match is_annotated.then(|| parameters(tool)) {
            None => Vec::new(),
            Some(Ok(parameters)) => parameters,
            Some(Err(why)) => {
                tracing::warn!(peer, tool = ?name, why, "a tool is left out");
                return false;
            }
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match parameters.is_empty() {
            true => known.remove(&name),
            false => known.insert(name, parameters.into()),
        };
        true
    }

    /// The headers of a `tools/call` with these parameters.
    pub(crate) fn headers(&self, params: Option<&Members>) -> Vec<(HeaderName, HeaderValue)> {
        self.find(params).unwrap_or_default()
    }

    fn find(&self, params: Option<&Members>) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return None;
        }
        let params = params?;
        let name = string(params.get("name")?)?;
        let parameters = known.get(&*name)?.clone();
        drop(known);
        let arguments: Value = serde_json::from_str(params.get("arguments")?).ok()?;
        let value = |parameter: &Parameter| {
            let found = parameter
                .path
                .iter()
                .try_fold(&arguments, |at, name| at.get(name))?;
            let text = match found {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((parameter.header.clone(), encoded(&text)?))
        };
        Some(parameters.iter().filter_map(value).collect())
    }
}

/// The annotated parameters of a tool, or why they are not valid.
fn parameters(tool: &RawValue) -> Result<Vec<Parameter>, &'static str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Schema {
        #[serde(default)]
        input_schema: Value,
    }
    let tool: Schema = serde_json::from_str(tool.get()).map_err(|_| "its schema is not JSON")?;
    let mut found = Vec::new();
    reach(&tool.input_schema, &mut Vec::new(), &mut found)?;
    if count(&tool.input_schema) != found.len() {
        return Err("an x-mcp-header is not on a property that every call can have");
    }
    let mut names = HashSet::new();
    match found
        .iter()
        .all(|parameter| names.insert(parameter.header.clone()))
    {
        true => Ok(found),
        false => Err("two properties have the same x-mcp-header"),
    }
}

/// Follows `properties`, and nothing else.
fn reach(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<Parameter>,
) -> Result<(), &'static str> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(annotation) = property.get(ANNOTATION) {
            if !matches!(
                property["type"].as_str(),
                Some("string" | "integer" | "boolean")
            ) {
                return Err(
                    "an x-mcp-header is on a property that is no string, integer or boolean",
                );
            }
            let header = annotation.as_str().filter(|name| !name.is_empty());
            let header = header.and_then(|name| format!("mcp-param-{name}").parse().ok());
            found.push(Parameter {
                header: header.ok_or("an x-mcp-header is no name of a header")?,
                path: path.clone(),
            });
        }
        reach(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// How many annotations there are anywhere. A property may have that name without being one.
fn count(schema: &Value) -> usize {
    match schema {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                (ANNOTATION, _) => 1,
                ("const" | "default" | "enum" | "examples", _) => 0,
                (
                    "properties" | "$defs" | "definitions" | "patternProperties",
                    Value::Object(named),
                ) => named.values().map(count).sum(),
                (_, value) => count(value),
            })
            .sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn learn(annotations: &Annotations, properties: &Value) -> bool {
        let schema = json!({"type": "object", "properties": properties});
        let tool = json!({"name": "t", "inputSchema": schema}).to_string();
        annotations.learn("peer", &RawValue::from_string(tool).unwrap())
    }

    #[test]
    fn annotated_parameters_become_headers() {
        let annotations = Annotations::default();
        let properties = json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {
                "n": {"type": "integer", "x-mcp-header": "N"},
                "x-mcp-header": {"type": "string"},
            }},
            "off": {"type": "boolean", "x-mcp-header": "Off"},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
        });
        assert!(learn(&annotations, &properties));
        let read = |params| Members::read(params).unwrap();
        let params = read(
            r#"{"name":"t","arguments":{"region":" a","deep":{"n":42},"off":false,"absent":null}}"#,
        );
        let headers = annotations.headers(Some(&params));
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
        assert!(annotations.headers(Some(&other)).is_empty());
        // What is no longer annotated is forgotten.
        assert!(learn(&annotations, &json!({"region": {"type": "string"}})));
        assert!(annotations.headers(Some(&params)).is_empty());
    }

    #[test]
    fn annotations_that_are_not_valid_are_refused() {
        let one = |property: Value| json!({"a": property});
        for properties in [
            one(json!({"type": "string", "x-mcp-header": ""})),
            one(json!({"type": "string", "x-mcp-header": "a b"})),
            one(json!({"type": "string", "x-mcp-header": "Région"})),
            one(json!({"type": "string", "x-mcp-header": 1})),
            one(json!({"type": "number", "x-mcp-header": "A"})),
            one(json!({"type": "object", "x-mcp-header": "A"})),
            one(json!({"x-mcp-header": "A"})),
            one(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            one(json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]})),
            json!({
                "a": {"type": "string", "x-mcp-header": "A"},
                "b": {"type": "string", "x-mcp-header": "a"},
            }),
        ] {
            assert!(!learn(&Annotations::default(), &properties), "{properties}");
        }
    }
}
