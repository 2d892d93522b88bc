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
    let cleaned = visible_definition(value.clone());
    match cleaned == value {
        true => definition,
        false => raw(cleaned.to_string()).unwrap_or(definition),
    }
}

/// Members by which a backend finds an item: published names are made from them, URIs are sent back.
const IDENTITY: [&str; 3] = ["name", "uri", "uriTemplate"];

fn visible_definition(definition: Value) -> Value {
    let Value::Object(members) = definition else {
        return visible(definition);
    };
    let members = members.into_iter().map(|(name, value)| {
        let is_identity = IDENTITY.contains(&name.as_str());
        (name, if is_identity { value } else { visible(value) })
    });
    Value::Object(members.collect())
}

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

/// Returns true if JSON text has an invisible character, literally or escaped.
pub(crate) fn has_hidden_characters(json: &str) -> bool {
    if !json.is_ascii() && json.chars().any(is_invisible) {
        return true;
    }
    let mut rest = json;
    while let Some((_, after)) = rest.split_once('\\') {
        let mut letters = after.chars();
        let is_code = letters.next() == Some('u');
        rest = letters.as_str();
        if !is_code {
            continue;
        }
        // A character from U+10000 on is escaped as two surrogates.
        let second = rest.get(4..).and_then(|rest| rest.strip_prefix("\\u"));
        let units = [Some(rest), second]
            .into_iter()
            .flatten()
            .map_while(code_unit);
        let letter = char::decode_utf16(units).next();
        if letter.is_some_and(|letter| letter.is_ok_and(is_invisible)) {
            return true;
        }
    }
    false
}

/// Reads the code unit of an escape after its `\u`.
fn code_unit(digits: &str) -> Option<u16> {
    u16::from_str_radix(digits.get(..4)?, 16).ok()
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
mod tests {
    use super::*;

    #[track_caller]
    fn check(definition: &str, expected: Result<&str, &str>) {
        let definition = RawValue::from_string(definition.to_owned()).unwrap();
        let found = tool(&definition);
        let found = found.as_ref().map(|found| found.get());
        assert_eq!(found, expected.map_err(str::to_owned).as_ref().copied());
    }

    #[test]
    fn valid_definition_keeps_its_bytes() {
        let definition = r#"{"name":"a","inputSchema":{"type":"object", "properties":{"n":{"maximum":1.50}}},"x":1.0}"#;
        check(definition, Ok(definition));
        let named = r#"{"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}"#;
        check(named, Ok(named));
    }

    #[test]
    fn hidden_characters_are_removed_from_texts() {
        let cleaned = |text: &str| {
            let definition = RawValue::from_string(text.to_owned()).unwrap();
            without_hidden_characters(definition).get().to_owned()
        };
        for clean in [
            r#"{"name":"a", "description":"\u00e4\nb","x":1.50}"#,
            "{\"description\":\"\u{e4}\", \"uri\":\"x://\u{200b}\"}",
        ] {
            assert_eq!(cleaned(clean), clean);
        }
        let hidden = r#"{"a":[{"title":"x\u001b\u200by\udb40\udc41"}]}"#;
        assert_eq!(cleaned(hidden), r#"{"a":[{"title":"xy"}]}"#);
        let everywhere = "{\"inputSchema\":{\"properties\":{\"a\u{fe01}\":{\"enum\":[\"b\u{3164}\"],\"default\":\"c\u{2028}\",\"examples\":[\"d\u{e0100}\"],\"$comment\":\"e\u{2800}\"}}}}";
        let visible = r#"{"inputSchema":{"properties":{"a":{"enum":["b"],"default":"c","examples":["d"],"$comment":"e"}}}}"#;
        assert_eq!(cleaned(everywhere), visible);
    }

    #[test]
    fn hidden_characters_in_results_are_found() {
        for (json, hides) in [
            (r#"{"text":"Gr\u00fc\u00dfe \n\t\"x\" \\u200b"}"#, false),
            ("{\"text\":\"Gr\u{fc}\u{df}e\"}", false),
            ("{\"text\":\"x\u{200b}\"}", true),
            (r#"{"text":"x\u202e"}"#, true),
            (r#"{"text":"x\udb40\udc41"}"#, true),
            (r#"{"text":"\u001b[31m"}"#, true),
            (r#"{"text":"\ud834\udd73"}"#, true),
            (r#"{"text":"\ud83d\ude00"}"#, false),
            (r#"{"text":"\udb40"}"#, false),
        ] {
            assert_eq!(has_hidden_characters(json), hides, "{json}");
        }
    }

    #[test]
    fn members_that_strict_clients_reject_are_removed() {
        let invalid = r#"{"name":"a","title":1,"inputSchema":{},"annotations":{"readOnlyHint":"yes"},"execution":{"taskSupport":"maybe"},"outputSchema":{"type":"array"},"icons":{},"_meta":[]}"#;
        let expected = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
        check(invalid, Ok(expected));
        let expected = r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#;
        check(r#"{"name":"a"}"#, Ok(expected));
    }

    #[test]
    fn definitions_beyond_repair_are_rejected() {
        let nested = "[".repeat(70) + &"]".repeat(70);
        let deep = format!(r#"{{"inputSchema":{{"type":"object","x":{nested}}}}}"#);
        let foreign =
            r#"{"inputSchema":{"type":"object","properties":{"a":{"$ref":"http://x/y"}}}}"#;
        let text = r#"{"inputSchema":{"type":"string"}}"#;
        for (definition, reason) in [
            ("[]", "is not an object"),
            (text, "has an inputSchema whose type is not \"object\""),
            (
                foreign,
                "has an inputSchema that refers to another document",
            ),
            (
                &deep,
                "has an inputSchema that is nested deeper than 64 levels",
            ),
            (
                r#"{"inputSchema":{"type":"object","$id":"http://x/y"}}"#,
                "has an inputSchema that refers to another document",
            ),
            (
                r#"{"inputSchema":{"type":"object","$schema":"http://x/y"}}"#,
                "has an inputSchema that refers to another document",
            ),
            (
                r#"{"inputSchema":{"type":"object","properties":{"a":{"$dynamicRef":"http://x#y"}}}}"#,
                "has an inputSchema that refers to another document",
            ),
        ] {
            check(definition, Err(reason));
        }
    }
}
