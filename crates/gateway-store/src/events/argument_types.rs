//! The types and sizes of a call's arguments, for the event log, and the values of those that the operator has named.

use std::borrow::Cow;
use std::collections::BTreeSet;

use mcp_core::jsonrpc::{members, string};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use upstream::redact::{HIDDEN, Redactor, redacted};
use upstream::text::{clean, truncate, visible};

/// Fields that are listed; the others are only counted.
const MAX_LISTED_FIELDS: usize = 24;

/// Fields after so many bytes are only counted.
const MAX_TYPES_BYTES: usize = 8 * 1024;

/// Longer names are only counted.
const MAX_FIELD_NAME: usize = 40;

/// Larger arguments are not parsed again; that would cost more than the log entry is worth.
const MAX_ARGUMENT_BYTES: usize = 256 * 1024;

/// The arguments that the schema of a tool knows.
#[derive(Clone, Debug, Default)]
pub struct KnownArguments {
    names: BTreeSet<String>,
    /// Its description of other arguments, if it has one.
    takes_others: bool,
}

impl KnownArguments {
    /// Reads the input schema of a tool.
    pub fn new(schema: &Value) -> Self {
        let properties = schema["properties"].as_object();
        let names = properties.into_iter().flat_map(Map::keys);
        let others = schema.get("additionalProperties").unwrap_or(&Value::Null);
        Self {
            names: names.cloned().collect(),
            takes_others: *others == Value::Bool(true)
                || others.is_object()
                || schema.get("patternProperties").is_some(),
        }
    }

    /// Returns true if a call may have the argument `name`.
    pub fn takes(&self, name: &str) -> bool {
        self.takes_others || self.names.contains(name)
    }
}

/// Limit for the characters of one recorded value, and for those of all of one event. More are cut, or have their types
/// only.
const MAX_VALUE_CHARS: usize = 200;
const MAX_VALUES_CHARS: usize = 3_000;

/// Says whether the value of an argument of a tool is recorded: by the published name of the tool and the name of the
/// argument.
pub type RecordedArguments = dyn Fn(&str, &str) -> bool + Send + Sync;

/// The types of arguments, as JSON text of at most a few kilobytes:
/// `{"workflow":"string(5)","inputs":"object(2)","wait":"boolean"}`.
///
/// Strings have their length in bytes, arrays and objects their number of items. Only the top object's
/// field names are kept. A recorded value is in an object: `{"workflow":{"value":"daily"}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentTypes {
    json: String,
    /// The recorded values alone.
    values: String,
}

impl ArgumentTypes {
    /// The types of `value`, which need not be an object, and the values of the arguments that are recorded, without
    /// secrets. Only fields that the schema names are named: any other name could be a value by mistake.
    pub fn new(
        value: &RawValue,
        known: &KnownArguments,
        is_recorded: impl Fn(&str) -> bool,
    ) -> Self {
        let json = value.get();
        let mut types = String::with_capacity(128);
        let mut values = String::new();
        let has_recorded = || {
            let mut fields = members(json).into_iter().flatten();
            fields.any(|(name, _)| is_recorded(&name))
        };
        if json.len() > MAX_ARGUMENT_BYTES && !has_recorded() {
            push_type(&mut types, "large", Some(json.len()));
        } else if let Some(fields) = members(json) {
            push_fields(&mut types, &mut values, fields, known, is_recorded);
        } else {
            push_value(&mut types, json);
        }
        Self {
            json: types,
            values,
        }
    }

    /// Returns the types as JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The names and the values of the arguments that are recorded, by which denials are told apart.
    pub(super) fn values(&self) -> &str {
        &self.values
    }
}

fn push_fields<'a>(
    types: &mut String,
    values: &mut String,
    fields: impl Iterator<Item = (Cow<'a, str>, &'a str)>,
    known: &KnownArguments,
    is_recorded: impl Fn(&str) -> bool,
) {
    let (mut shown, mut others, mut room) = (0, 0, MAX_VALUES_CHARS);
    for (name, json) in fields {
        let is_recorded = is_recorded(&name);
        let is_in_schema = known.names.contains(&*name);
        // A client can invent any number of names that the operator's patterns match.
        let is_full = shown >= MAX_LISTED_FIELDS && !(is_recorded && is_in_schema)
            || types.len() > MAX_TYPES_BYTES;
        // The operator names an argument also where the schema does not.
        let is_known = is_recorded || is_in_schema;
        if is_full || !is_known || !is_field_name(&name) {
            others += 1;
            continue;
        }
        types.extend([if shown == 0 { "{\"" } else { ",\"" }, &name, "\":"]);
        match is_recorded.then(|| recorded(&name, json)) {
            Some(value) if value.len() <= room => {
                room -= value.len();
                let value = Value::from(value).to_string();
                values.extend([&*name, &value]);
                types.extend(["{\"value\":", &value, "}"]);
            }
            _ => push_value(types, json),
        }
        shown += 1;
    }
    if shown == 0 {
        types.push('{');
    }
    if others > 0 {
        let comma = if shown > 0 { "," } else { "" };
        types.extend([comma, "\"…\":\"", &others.to_string(), " more\""]);
    }
    types.push('}');
}

/// A value as the log has it: without secrets, with hidden characters by their numbers, and cut.
fn recorded(name: &str, json: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(json) else {
        return String::new();
    };
    let mut named = Value::Object(Map::from_iter([(name.to_owned(), value)]));
    Redactor::of_all().json(&mut named);
    let text = match &named[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    truncate(&shown(&text), MAX_VALUE_CHARS)
}

/// A text as the log has it: without secrets, and with hidden characters by their numbers.
pub(super) fn shown(text: &str) -> String {
    let (cleaned, shown) = (clean(text), redacted(text));
    // A secret that hidden characters split is not put together again by the reader.
    match cleaned != text && cleaned != shown {
        true => HIDDEN.to_owned(),
        false if cleaned == shown => visible(text),
        false => shown.into_owned(),
    }
}

/// Adds the type and the size of a value; the first byte of JSON determines its type.
fn push_value(types: &mut String, json: &str) {
    let (name, size) = match json.as_bytes().first() {
        Some(b'"') => ("string", string(json).map(|text| text.len())),
        Some(b'{') => ("object", members(json).map(Iterator::count)),
        Some(b'[') => {
            // Counts the items without storing them.
            let items: Result<Vec<IgnoredAny>, _> = serde_json::from_str(json);
            ("array", items.ok().map(|items| items.len()))
        }
        Some(b't' | b'f') => ("boolean", None),
        Some(b'n') => ("null", None),
        _ => ("number", None),
    };
    push_type(types, name, size);
}

fn push_type(types: &mut String, name: &str, size: Option<usize>) {
    match size {
        Some(size) => types.extend(["\"", name, "(", &size.to_string(), ")\""]),
        None => types.extend(["\"", name, "\""]),
    }
}

/// Returns true for the usual form of a field name, which needs no escapes.
fn is_field_name(text: &str) -> bool {
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$');
    (1..=MAX_FIELD_NAME).contains(&text.len()) && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_values_are_recorded_without_secrets_and_hidden_characters() {
        let known = KnownArguments::new(&serde_json::json!({"properties": {
            "container": {}, "token": {}, "command": {}, "name": {}, "labels": {}}}));
        let long = "x".repeat(MAX_VALUE_CHARS + 1);
        let cut = format!("{}…", &long[1..]);
        for (name, value, expected) in [
            ("container", r#""web-1""#, "web-1"),
            ("container", r#""a\u202eb""#, "a\\u{202e}b"),
            ("container", &format!("\"{long}\""), &cut),
            ("container", "7", "7"),
            ("token", r#""hunter2""#, "***"),
            ("token", "4711", "***"),
            (
                "labels",
                r#"{"password":{"x":"y1"}}"#,
                r#"{"password":{"x":"***"}}"#,
            ),
            (
                "command",
                r#"["login","--password","y1"]"#,
                r#"["login","--password","***"]"#,
            ),
            // The schema need not name it.
            ("other", r#""web-1""#, "web-1"),
            ("command", r#"["sh","-c","ls"]"#, r#"["sh","-c","ls"]"#),
            (
                "command",
                r#""run --password hunter2""#,
                "run --password ***",
            ),
            (
                "command",
                r#""ghp_0123456789\u200babcdefghijABCDEF""#,
                "***",
            ),
        ] {
            let raw: Box<RawValue> =
                serde_json::from_str(&format!("{{\"{name}\":{value},\"name\":\"s3cret\"}}"))
                    .unwrap();
            let types = ArgumentTypes::new(&raw, &known, |recorded| recorded == name);
            let expected = serde_json::json!({name: {"value": expected}, "name": "string(6)"});
            assert_eq!(
                serde_json::from_str::<Value>(types.json()).unwrap(),
                expected
            );
        }
        // However many and however long the arguments are.
        let long = format!("\"{}\"", "x".repeat(MAX_ARGUMENT_BYTES));
        let raw: Box<RawValue> =
            serde_json::from_str(&format!(r#"{{"name":{long},"container":"web-1"}}"#)).unwrap();
        let types = ArgumentTypes::new(&raw, &known, |name| name == "container");
        assert!(
            types.json().contains(r#""container":{"value":"web-1"}"#),
            "{}",
            types.json()
        );
    }

    fn types(json: &str) -> String {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        let names = [
            "workflow", "inputs", "wait", "limit", "items", "none", "s3 cret",
        ];
        let names = names.map(str::to_owned).into_iter();
        let known = KnownArguments {
            names: names
                .chain((0..1000).map(|n| format!("field{n}")))
                .collect(),
            takes_others: false,
        };
        let types = ArgumentTypes::new(&raw, &known, |_| false);
        types.json().to_owned()
    }

    #[test]
    fn keeps_types_and_sizes_only() {
        let json = r#"{"workflow":"s3cr\u00e9t","inputs":{"token":"s3cret","n":[1]},"wait":true,
            "limit":12345678901234567890123,"items":["s3cret",2],"none":null,"s3 cret":1,"s3cret":2}"#;
        assert_eq!(
            types(json),
            r#"{"workflow":"string(7)","inputs":"object(2)","wait":"boolean","limit":"number","items":"array(2)","none":"null","…":"2 more"}"#
        );
        assert_eq!(types("{}"), "{}");
        assert_eq!(types(r#"["s3cret"]"#), r#""array(1)""#);
        assert_eq!(types(r#""s3cret""#), r#""string(6)""#);
        assert_eq!(types("1e400"), r#""number""#);
    }

    #[test]
    fn result_is_small_for_every_value() {
        let fields: Vec<String> = (0..1000).map(|n| format!("\"field{n}\":{n}")).collect();
        let wide = types(&format!("{{{}}}", fields.join(",")));
        assert!(
            wide.ends_with(r#""field23":"number","…":"976 more"}"#),
            "{wide}"
        );
        let large = format!("\"{}\"", "x".repeat(MAX_ARGUMENT_BYTES));
        assert_eq!(types(&large), r#""large(262146)""#);
        // Names that the client has invented, which the operator's patterns match.
        let names: Vec<String> = (0..900).map(|n| format!("\"x{n}\":{n}")).collect();
        let raw = RawValue::from_string(format!("{{{},\"a\":7}}", names.join(","))).unwrap();
        let known = KnownArguments::new(&serde_json::json!({"properties": {"a": {}}}));
        let invented = ArgumentTypes::new(&raw, &known, |_| true);
        let end = r#","a":{"value":"7"},"…":"876 more"}"#;
        assert!(invented.json().ends_with(end), "{}", invented.json());
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert_eq!(types(&deep), r#""array(1)""#);
        let longest = format!("{{\"{}\":1}}", "x".repeat(MAX_FIELD_NAME + 1));
        assert_eq!(types(&longest), r#"{"…":"1 more"}"#);
    }
}
