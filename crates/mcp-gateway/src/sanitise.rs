//! Checks and repairs the definitions of other servers, so that strict clients accept them.
//!
//! Clients read a list as a whole: one invalid definition makes them reject all of it. A valid
//! definition keeps its bytes.

use mcp_core::jsonrpc::Members;
use serde_json::Value;
use serde_json::value::RawValue;
use upstream::text::is_invisible;

/// Deeper schemas make recursive parsers of clients fail.
const MAX_SCHEMA_DEPTH: usize = 64;
/// The meta-schemas that every validator has.
const META_SCHEMAS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];
/// Longer definitions fill the context of any model.
const MAX_DEFINITION_BYTES: usize = 256 * 1024;

/// An optional member of a tool's definition, and the check of its value.
type Rule = (&'static str, fn(&Value) -> bool);

const RULES: [Rule; 7] = [
    ("title", Value::is_string),
    ("description", Value::is_string),
    ("annotations", is_annotations),
    ("icons", Value::is_array),
    ("_meta", Value::is_object),
    ("execution", is_execution),
    ("outputSchema", is_object_schema),
];

/// Returns a tool's definition without the optional members that a strict client would reject.
///
/// # Errors
/// The reason why it cannot be repaired.
pub(crate) fn tool(definition: &RawValue) -> Result<Box<RawValue>, String> {
    if definition.get().len() > MAX_DEFINITION_BYTES {
        return Err(format!("is longer than {MAX_DEFINITION_BYTES} bytes"));
    }
    let mut members = Members::read(definition.get()).ok_or("is not an object")?;
    let input = match members.get("inputSchema") {
        None => r#"{"type":"object","properties":{}}"#.to_owned(),
        Some(schema) => input_schema(schema)?,
    };
    members.set("inputSchema", &input);
    for (name, is_fit) in RULES {
        let value = members.get(name).map(parse);
        if value.is_some_and(|value| value.is_none_or(|value| !is_fit(&value))) {
            members.remove(name);
        }
    }
    raw(members.encode())
}

/// Removes invisible characters from every text of a definition, names of properties and choices included:
/// control characters, and those that a model reads but no screen shows. The identity of the item stays.
pub(crate) fn without_hidden_characters(definition: Box<RawValue>) -> Box<RawValue> {
    let text = definition.get();
    if text.is_ascii() && !text.contains("\\u") {
        return definition;
    }
    let Some(value) = parse(definition.get()) else {
        return definition;
    };
    let mut cleaned = visible(value.clone());
    for name in IDENTITY {
        if let Some(own) = value.get(name) {
            cleaned[name] = own.clone();
        }
    }
    match cleaned == value {
        true => definition,
        false => raw(cleaned.to_string()).unwrap_or(definition),
    }
}

/// Members by which a backend finds an item: published names are made from them, URIs are sent back.
const IDENTITY: [&str; 3] = ["name", "uri", "uriTemplate"];

fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible_text(text)),
        Value::Object(members) => {
            let members = members.into_iter();
            let members = members.map(|(name, value)| (visible_text(name), visible(value)));
            Value::Object(members.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(visible).collect()),
        other => other,
    }
}

fn visible_text(mut text: String) -> String {
    text.retain(|letter| !is_invisible(letter));
    text
}

/// Returns the input schema, repaired if it does not say that it describes an object.
fn input_schema(schema: &str) -> Result<String, String> {
    let value = parse(schema).ok_or("has an inputSchema that cannot be read")?;
    if !value.is_object() {
        return Err("has an inputSchema that is not an object".to_owned());
    }
    if depth(&value) > MAX_SCHEMA_DEPTH {
        return Err(format!(
            "has an inputSchema that is nested deeper than {MAX_SCHEMA_DEPTH} levels"
        ));
    }
    if has_foreign_ref(&value) {
        return Err("has an inputSchema that refers to another document".to_owned());
    }
    if value["type"] == "object" && value.get("properties").is_none_or(Value::is_object) {
        return Ok(schema.to_owned());
    }
    if value.get("type").is_some_and(|kind| kind != "object") {
        return Err("has an inputSchema whose type is not \"object\"".to_owned());
    }
    let mut members = Members::read(schema).ok_or("has an inputSchema that cannot be read")?;
    members.set("type", r#""object""#);
    if !value.get("properties").is_none_or(Value::is_object) {
        members.remove("properties");
    }
    Ok(members.encode())
}

fn is_annotations(value: &Value) -> bool {
    let hints = [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    ];
    let fits = |name: &&str| value.get(*name).is_none_or(Value::is_boolean);
    value.is_object() && hints.iter().all(fits) && value.get("title").is_none_or(Value::is_string)
}

fn is_execution(value: &Value) -> bool {
    let known = |support: &Value| {
        matches!(
            support.as_str(),
            Some("forbidden" | "optional" | "required")
        )
    };
    value.is_object() && value.get("taskSupport").is_none_or(known)
}

fn is_object_schema(value: &Value) -> bool {
    value["type"] == "object" && depth(value) <= MAX_SCHEMA_DEPTH && !has_foreign_ref(value)
}

fn depth(value: &Value) -> usize {
    let inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(members) => Box::new(members.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => return 0,
    };
    1 + inner.map(depth).max().unwrap_or(0)
}

/// Returns true for a reference to another document, or a base that makes one of local references: a client
/// that resolves it would fetch a URL that the backend has chosen.
fn has_foreign_ref(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_foreign = |target: &str| match name.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" | "$id" => !target.starts_with('#'),
                "$schema" => !META_SCHEMAS.iter().any(|own| target.starts_with(own)),
                _ => false,
            };
            value.as_str().is_some_and(is_foreign) || has_foreign_ref(value)
        }),
        Value::Array(items) => items.iter().any(has_foreign_ref),
        _ => false,
    }
}

fn parse(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

fn raw(json: String) -> Result<Box<RawValue>, String> {
    RawValue::from_string(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
