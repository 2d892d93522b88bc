//! Definitions of other servers, made fit for the clients of this one.
//!
//! Clients read a list as a whole: one definition that they cannot read takes all the others down.
//! What is fit is left as it was written.

use mcp_core::jsonrpc::Members;
use serde_json::Value;
use serde_json::value::RawValue;
use upstream::text::is_invisible;

/// Deeper schemas make clients that follow them recursively give up.
const MAX_DEPTH: usize = 64;
/// Longer definitions fill the context of any model.
const MAX_BYTES: usize = 256 * 1024;

/// A member of a tool's definition, and what it must be where it is there at all.
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

/// A tool's definition without what a strict client would refuse.
///
/// # Errors
/// Why nothing can be made of it.
pub(crate) fn tool(definition: &RawValue) -> Result<Box<RawValue>, String> {
    if definition.get().len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
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

/// A definition without what people cannot see in its titles and descriptions: control characters,
/// and those that a model reads but no screen shows.
pub(crate) fn visible(definition: Box<RawValue>) -> Box<RawValue> {
    let text = definition.get();
    if text.is_ascii() && !text.contains("\\u") {
        return definition;
    }
    let Some(mut value) = parse(definition.get()) else {
        return definition;
    };
    if !show(&mut value) {
        return definition;
    }
    raw(value.to_string()).unwrap_or(definition)
}

/// True if something had to go.
fn show(value: &mut Value) -> bool {
    let mut changed = false;
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                changed |= match value {
                    Value::String(text) if name == "description" || name == "title" => {
                        let before = text.len();
                        text.retain(|letter| !is_invisible(letter));
                        text.len() != before
                    }
                    value => show(value),
                };
            }
        }
        Value::Array(items) => {
            for item in items {
                changed |= show(item);
            }
        }
        _ => {}
    }
    changed
}

/// True if JSON text holds what people cannot see, as it is or escaped.
pub(crate) fn hides_something(json: &str) -> bool {
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
        let code = rest
            .get(..4)
            .and_then(|code| u16::from_str_radix(code, 16).ok());
        // The first half of a tag, or a character that needs no second one.
        let is_tag = code == Some(0xdb40);
        let letter = code.and_then(|code| char::from_u32(code.into()));
        if is_tag || letter.is_some_and(is_invisible) {
            return true;
        }
    }
    false
}

/// The schema of an object, as it is where it is one.
fn input_schema(schema: &str) -> Result<String, String> {
    let value = parse(schema).ok_or("has an inputSchema that cannot be read")?;
    if !value.is_object() {
        return Err("has an inputSchema that is not an object".to_owned());
    }
    if depth(&value) > MAX_DEPTH {
        return Err(format!(
            "has an inputSchema that is deeper than {MAX_DEPTH} levels"
        ));
    }
    if has_foreign_ref(&value) {
        return Err("has an inputSchema that refers to another document".to_owned());
    }
    if value["type"] == "object" && value.get("properties").is_none_or(Value::is_object) {
        return Ok(schema.to_owned());
    }
    if value.get("type").is_some_and(|kind| kind != "object") {
        return Err("has an inputSchema that is not one of an object".to_owned());
    }
    let mut members = Members::read(schema).ok_or("has an inputSchema that cannot be read")?;
    members.set("type", r#""object""#);
    if value
        .get("properties")
        .is_some_and(|properties| !properties.is_object())
    {
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
    value["type"] == "object" && depth(value) <= MAX_DEPTH && !has_foreign_ref(value)
}

fn depth(value: &Value) -> usize {
    let inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(members) => Box::new(members.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => return 0,
    };
    1 + inner.map(depth).max().unwrap_or(0)
}

/// A client that resolves it would fetch what this server's backend has chosen.
fn has_foreign_ref(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let foreign = |target: &str| !target.starts_with('#');
            (name == "$ref" && value.as_str().is_some_and(foreign)) || has_foreign_ref(value)
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
    fn what_is_fit_keeps_its_bytes() {
        let definition = r#"{"name":"a","inputSchema":{"type":"object", "properties":{"n":{"maximum":1.50}}},"x":1.0}"#;
        check(definition, Ok(definition));
    }

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let shown = |text: &str| {
            let definition = RawValue::from_string(text.to_owned()).unwrap();
            visible(definition).get().to_owned()
        };
        for fit in [
            r#"{"name":"a", "description":"\u00e4\nb","x":1.50}"#,
            "{\"description\":\"\u{e4}\", \"default\":\"\u{200b}\"}",
        ] {
            assert_eq!(shown(fit), fit);
        }
        assert_eq!(
            shown(r#"{"a":[{"title":"x\u001b\u200by\udb40\udc41"}]}"#),
            r#"{"a":[{"title":"xy"}]}"#
        );
    }

    #[test]
    fn what_is_hidden_in_results_is_seen() {
        for (json, hides) in [
            (r#"{"text":"Gr\u00fc\u00dfe \n\t\"x\" \\u200b"}"#, false),
            ("{\"text\":\"Gr\u{fc}\u{df}e\"}", false),
            ("{\"text\":\"x\u{200b}\"}", true),
            (r#"{"text":"x\u202e"}"#, true),
            (r#"{"text":"x\udb40\udc41"}"#, true),
            (r#"{"text":"\u001b[31m"}"#, true),
            (r#"{"text":"\ud83d\ude00"}"#, false),
        ] {
            assert_eq!(hides_something(json), hides, "{json}");
        }
    }

    #[test]
    fn what_strict_clients_refuse_is_left_out() {
        check(
            r#"{"name":"a","title":1,"inputSchema":{},"annotations":{"readOnlyHint":"yes"},"execution":{"taskSupport":"maybe"},"outputSchema":{"type":"array"},"icons":{},"_meta":[]}"#,
            Ok(r#"{"name":"a","inputSchema":{"type":"object"}}"#),
        );
        check(
            r#"{"name":"a"}"#,
            Ok(r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#),
        );
    }

    #[test]
    fn what_cannot_be_mended_is_refused_alone() {
        check("[]", Err("is not an object"));
        check(
            r#"{"inputSchema":{"type":"string"}}"#,
            Err("has an inputSchema that is not one of an object"),
        );
        check(
            r#"{"inputSchema":{"type":"object","properties":{"a":{"$ref":"http://x/y"}}}}"#,
            Err("has an inputSchema that refers to another document"),
        );
        let deep = format!(
            r#"{{"inputSchema":{{"type":"object","x":{}{}}}}}"#,
            "[".repeat(70),
            "]".repeat(70)
        );
        check(
            &deep,
            Err("has an inputSchema that is deeper than 64 levels"),
        );
    }
}
