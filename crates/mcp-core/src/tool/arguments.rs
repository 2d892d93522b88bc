//! Parses the arguments of a call and explains invalid ones. Arguments are read as they are meant: clients write JSON,
//! numbers and booleans into strings, numbers for ids, and `null` or "" for what is optional. Only values that the tool
//! refuses are changed; all others keep their bytes.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use serde_path_to_error::Segment;

use super::schema;
use crate::jsonrpc::{Members, quoted, string};

/// The member that n8n 1.x clients add to the arguments.
const TOOL_CALL_ID: &str = "toolCallId";

/// Bytes of the reason why an argument is invalid.
const MAX_REASON: usize = 400;

/// Arguments of a tool, or parameters of a method, that are invalid.
#[derive(Debug)]
pub struct ArgumentError {
    /// Path of the invalid field, as `a.b[0]`; empty if the arguments as a whole are invalid.
    pub field: String,
    /// The fault, in words.
    pub reason: String,
    /// The JSON Schema of the field, if it is known.
    pub schema: Option<Box<Value>>,
}

impl ArgumentError {
    /// `field` is invalid because of `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
            schema: None,
        }
    }
}

/// Parses arguments, which must be a JSON object, as `T`. Arguments that `T` refuses are read once more as they are
/// meant by clients that write other types than the schema names.
pub(crate) fn parse_arguments<T: DeserializeOwned + JsonSchema>(
    arguments: &RawValue,
) -> Result<T, ArgumentError> {
    // A serde struct would read an array as its fields in order.
    if !arguments.get().starts_with('{') {
        return Err(ArgumentError::new("", "arguments must be a JSON object"));
    }
    serde_json::from_str(arguments.get()).or_else(|_| {
        let (_, schema) = schema::input::<T>();
        parse_as_meant(arguments, &schema)
    })
}

/// Parses the parameters of a method, which must be a JSON object, as `T`.
pub(crate) fn parse_params<T: DeserializeOwned>(params: &RawValue) -> Result<T, ArgumentError> {
    if !params.get().starts_with('{') {
        return Err(ArgumentError::new("", "params must be a JSON object"));
    }
    // The path of the field costs time, so it is only computed after a failure.
    serde_json::from_str(params.get()).or_else(|_| parse_as_meant(params, &Value::Null))
}

fn parse_as_meant<T: DeserializeOwned>(
    arguments: &RawValue,
    schema: &Value,
) -> Result<T, ArgumentError> {
    let mut json = in_types(arguments, schema);
    loop {
        let mut deserializer = serde_json::Deserializer::from_str(&json);
        let error = match serde_path_to_error::deserialize(&mut deserializer) {
            Ok(tool) => return Ok(tool),
            Err(error) => error,
        };
        let path: Vec<_> = error.path().iter().collect();
        // Each round leaves out members, so this ends.
        match without_blanks(&json, schema, &path) {
            Some(shorter) => json = shorter,
            None => {
                let field = field(error.path().to_string(), error.inner());
                return Err(ArgumentError::new(
                    field,
                    reason(error.inner(), schema, &path),
                ));
            }
        }
    }
}

/// Returns the arguments of a tool without a struct as they are meant by its schema.
pub fn as_meant(arguments: &RawValue, schema: &Value) -> String {
    let json = in_types(arguments, schema);
    without_blanks(&json, schema, &[]).unwrap_or(json)
}

/// Returns the arguments in the types of their schema, and without the member that n8n 1.x clients add.
fn in_types(arguments: &RawValue, schema: &Value) -> String {
    let is_known = schema["properties"].get(TOOL_CALL_ID).is_some();
    let without_id = without_tool_call_id(arguments).filter(|_| !is_known);
    let json = without_id.as_deref().unwrap_or(arguments).get();
    to_schema(json, schema).unwrap_or_else(|| json.to_owned())
}

/// Returns the arguments without the `toolCallId` that n8n 1.x clients add to every call; `None` if
/// they have none. For tools whose schema does not know it.
pub fn without_tool_call_id(arguments: &RawValue) -> Option<Box<RawValue>> {
    if !arguments.get().contains(TOOL_CALL_ID) {
        return None;
    }
    let mut members = Members::read(arguments.get())?;
    members.get(TOOL_CALL_ID)?;
    members.remove(TOOL_CALL_ID);
    RawValue::from_string(members.encode()).ok()
}

/// The invalid field: the path, or the field that the message names if the enclosing object is
/// invalid.
fn field(path: String, error: &serde_json::Error) -> String {
    if path != "." {
        return path;
    }
    let text = error.to_string();
    // Others quote a value.
    let named = text.split_once(" field `").map(|(_, rest)| rest);
    let name = named.and_then(|rest| rest.split('`').next());
    name.unwrap_or_default().to_owned()
}

/// The beginnings of the messages that repeat the refused value.
const QUOTING: [&str; 4] = [
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
    "unknown variant ",
];

/// The message without its position, since the model wrote an object, not lines and columns; without the refused value,
/// which may be long or a secret; and with the words of JSON instead of types of Rust. `path` is the refused place.
fn reason(error: &serde_json::Error, schema: &Value, path: &[&Segment]) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.rfind(" at line ") {
        text.truncate(end);
    }
    if QUOTING.iter().any(|start| text.starts_with(start))
        && let Some((given, expected)) = text.rsplit_once(", expected ")
    {
        let fault = given.split(['`', '"']).next().unwrap_or_default();
        let fault = fault.trim_end().replace("sequence", "list");
        let (fault, expected) = (
            fault.replace("map", "object"),
            in_words(expected, at(schema, path)),
        );
        text = format!("{fault}, expected {expected}");
    } else if text.starts_with("data did not match any variant") {
        text = "has none of the forms in the schema of the tool".to_owned();
    }
    if text.len() > MAX_REASON {
        text.truncate(text.floor_char_boundary(MAX_REASON));
        text.push_str(" […]");
    }
    text
}

/// The schema of the place with this path.
fn at<'a>(schema: &'a Value, path: &[&Segment]) -> &'a Value {
    path.iter().fold(schema, |schema, segment| match segment {
        Segment::Map { key } => {
            let known = schema["properties"].get(key);
            known.unwrap_or(&schema["additionalProperties"])
        }
        Segment::Seq { .. } => &schema["items"],
        Segment::Enum { .. } | Segment::Unknown => &Value::Null,
    })
}

/// The expected value in the words of JSON, where `expected` is a type of Rust.
fn in_words(expected: &str, schema: &Value) -> String {
    let first = expected.split(' ').next().unwrap_or_default();
    let is_size = |size: &str| ["8", "16", "32", "64", "128", "size"].contains(&size);
    match first.split_at_checked(1) {
        Some(("i" | "u", size)) if is_size(size) => {
            // The schema leaves out a minimum of 0.
            let zero = first.starts_with('u').then(|| Value::from(0));
            let low = schema.get("minimum").or(zero.as_ref());
            return match (low, &schema["maximum"]) {
                (Some(low), Value::Number(high)) => format!("an integer from {low} to {high}"),
                (Some(low), _) => format!("an integer of at least {low}"),
                _ => "an integer".to_owned(),
            };
        }
        Some(("f", size)) if is_size(size) => return "a number".to_owned(),
        _ => {}
    }
    match first {
        "struct" | "internally" | "adjacently" | "newtype" => {
            let names = schema["properties"].as_object();
            let names = names.into_iter().flat_map(|all| all.keys());
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            match names.is_empty() {
                true => "an object".to_owned(),
                false => format!("an object with {}", names.join(", ")),
            }
        }
        "variant" | "enum" => "a word of the schema".to_owned(),
        "tuple" => "a list".to_owned(),
        "unit" => "null".to_owned(),
        _ => expected
            .replace("a sequence", "a list")
            .replace("a map", "an object"),
    }
}

/// Returns the JSON with each value in the type that its schema names; `None` if nothing changes.
fn to_schema(json: &str, schema: &Value) -> Option<String> {
    let text = || string(json).map(|text| text.trim().to_owned());
    match (schema["type"].as_str()?, json.as_bytes().first()?) {
        ("object", b'{') => change_members(json, |name, value| {
            let known = schema["properties"].get(name);
            to_schema(value, known.unwrap_or(&schema["additionalProperties"])).map(Some)
        }),
        ("array", b'[') => change_items(json, |item| to_schema(item, &schema["items"])),
        ("object" | "array", b'"') => {
            let text = text().filter(|text| text.starts_with(['{', '[']))?;
            serde_json::from_str::<&RawValue>(&text).ok()?;
            Some(to_schema(&text, schema).unwrap_or(text))
        }
        ("integer", b'"') => text()?.parse().ok().map(|value: i64| value.to_string()),
        ("integer", _) if json.contains(['.', 'e', 'E']) => {
            let value = json
                .parse()
                .ok()
                .filter(|value: &f64| value.fract() == 0.0)?;
            Number::from_f64(value)?;
            Some(format!("{value:.0}"))
        }
        ("number", b'"') => {
            let text = text()?;
            serde_json::from_str::<Number>(&text).ok().map(|_| text)
        }
        ("boolean", b'"') => {
            let text = text()?.to_ascii_lowercase();
            matches!(&*text, "true" | "false").then_some(text)
        }
        ("string", b'-' | b'0'..=b'9') if !json.contains(['.', 'e', 'E']) => Some(quoted(json)),
        _ => None,
    }
}

/// Returns the JSON without optional members that are `null` or "", below the place that the tool refused: the member
/// that `path` names, or all if the place is an object. What is left out of one item of a list is left out of all.
/// `None` if nothing changes.
fn without_blanks(json: &str, schema: &Value, path: &[&Segment]) -> Option<String> {
    // Arguments may be nested without end; schemas are not.
    if !schema.is_object() {
        return None;
    }
    let refused = match path.first() {
        Some(Segment::Map { key }) => Some(key),
        Some(Segment::Seq { .. }) => {
            return change_items(json, |item| {
                without_blanks(item, &schema["items"], &path[1..])
            });
        }
        _ => None,
    };
    if json.starts_with('[') {
        return change_items(json, |item| without_blanks(item, &schema["items"], &[]));
    }
    let required = schema["required"].as_array();
    let is_optional = |name: &str| required.is_none_or(|all| all.iter().all(|one| one != name));
    change_members(json, |name, value| {
        if refused.is_some_and(|refused| refused != name) {
            return None;
        }
        let inner = &schema["properties"][name];
        let is_text = inner["type"] == "string" && inner.get("enum").is_none();
        // An empty text may be meant, unless it is the one that was refused.
        let has_null = inner["type"]
            .as_array()
            .is_some_and(|types| types.iter().any(|one| one == "null"));
        let is_blank =
            value == "null" && !has_null || value == r#""""# && (!is_text || path.len() == 1);
        if is_blank && inner.is_object() && is_optional(name) {
            return Some(None);
        }
        let rest = path.get(1..).unwrap_or_default();
        without_blanks(value, inner, rest).map(Some)
    })
}

/// Returns the object with the members that `change` replaces (`Some(Some(json))`) or removes (`Some(None)`).
fn change_members(
    json: &str,
    change: impl Fn(&str, &str) -> Option<Option<String>>,
) -> Option<String> {
    let mut members = Members::read(json)?;
    let changes = members.iter();
    let changes = changes.filter_map(|(name, value)| Some((name.to_owned(), change(name, value)?)));
    let changes: Vec<_> = changes.collect();
    for (name, value) in &changes {
        match value {
            Some(value) => members.set(name, value),
            None => members.remove(name),
        }
    }
    (!changes.is_empty()).then(|| members.encode())
}

/// Returns the list with the items that `change` replaces.
fn change_items(json: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    let changed: Vec<_> = items.iter().map(|item| change(item.get())).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let items = items.iter().zip(changed);
    let items = items.map(|(item, changed)| changed.unwrap_or_else(|| item.get().to_owned()));
    Some(format!("[{}]", items.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    /// Counts.
    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Count {
        step: u8,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        is_loud: bool,
        ratio: Option<f64>,
        #[serde(default)]
        order: Order,
        #[serde(default)]
        id: Id,
        #[serde(default)]
        steps: Vec<Step>,
        /// An object of any members.
        data: Option<serde_json::Map<String, Value>>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        /// Anything.
        input: Option<Value>,
        note: Option<String>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Step {
        name: String,
        #[serde(default)]
        size: u32,
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        #[default]
        Up,
        Down,
    }

    /// A text that is never empty.
    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(try_from = "String")]
    struct Id(String);

    impl TryFrom<String> for Id {
        type Error = &'static str;

        fn try_from(id: String) -> Result<Self, Self::Error> {
            match id.is_empty() {
                true => Err("is empty"),
                false => Ok(Self(id)),
            }
        }
    }

    fn parse(arguments: &str) -> Result<Count, ArgumentError> {
        parse_arguments(&RawValue::from_string(arguments.to_owned()).unwrap())
    }

    #[test]
    fn arguments_are_read_as_they_are_meant() {
        // The last case: a text that is allowed to be empty stays, and so does what has any type.
        let cases = r#"
            {"step":"1"} => {"step":1}
            {"step":1.0} => {"step":1}
            {"step":" 1 ","ratio":"0.5"} => {"step":1,"ratio":0.5}
            {"step":1,"is_loud":"True"} => {"step":1,"is_loud":true}
            {"step":1,"tags":"[\"a\",2]"} => {"step":1,"tags":["a","2"]}
            {"step":1,"id":63} => {"step":1,"id":"63"}
            {"step":1,"labels":{"build":63}} => {"step":1,"labels":{"build":"63"}}
            {"step":1,"steps":"[{\"name\":\"a\",\"size\":\"2\"}]"} => {"step":1,"steps":[{"name":"a","size":2}]}
            {"step":"1","data":"{\"a\":[null,\"\",\"1\"]}"} => {"step":1,"data":{"a":[null,"","1"]}}
            {"step":1,"tags":null,"is_loud":null,"ratio":null,"order":null,"id":null,"steps":null} => {"step":1}
            {"step":1,"tags":"","is_loud":"","ratio":"","order":"","id":"","steps":"","data":""} => {"step":1}
            {"step":1,"steps":[{"name":"a","size":null},{"name":"b","size":""}]} => {"step":1,"steps":[{"name":"a"},{"name":"b"}]}
            {"step":"1","note":"","id":"","input":"[1]"} => {"step":1,"note":"","input":"[1]"}
        "#;
        for case in cases.trim().lines() {
            let (given, meant) = case.trim().split_once(" => ").unwrap();
            assert_eq!(parse(given).unwrap(), parse(meant).unwrap(), "{given}");
        }
    }

    #[test]
    fn error_names_the_invalid_argument() {
        let unknown = "unknown field `x`, expected one of `step`, `tags`, `is_loud`, `ratio`, `order`, `id`, `steps`, \
            `data`, `labels`, `input`, `note`";
        let text = "invalid type: string, expected an integer from 0 to 255";
        let texts = "invalid type: string, expected a list";
        let long = format!(r#"{{"step":1,"steps":"{}"}}"#, "hunter2".repeat(100));
        let item = "invalid type: floating point, expected a string";
        let null = "invalid type: null, expected an integer from 0 to 255";
        let half = "invalid type: floating point, expected an integer from 0 to 255";
        let large = "invalid value: integer, expected an integer from 0 to 255";
        let step = "invalid type: string, expected an object with `name`, `size`";
        let length = "invalid length 0, expected an object with `name`, `size`";
        let size = "invalid value: integer, expected an integer of at least 0";
        let other = "unknown variant, expected `up` or `down`";
        for (arguments, field, reason) in [
            ("[1]", "", "arguments must be a JSON object"),
            ("{}", "step", "missing field `step`"),
            (r#"{"step":1,"x":2}"#, "x", unknown),
            (r#"{"step":1,"toolCallId":"1","x":2}"#, "x", unknown),
            (r#"{"step":"one"}"#, "step", text),
            (r#"{"step":null}"#, "step", null),
            (r#"{"step":""}"#, "step", text),
            (r#"{"step":1.5}"#, "step", half),
            (r#"{"step":1,"step":"2"}"#, "step", "duplicate field `step`"),
            (r#"{"step":1,"tags":["a",2.5]}"#, "tags[1]", item),
            (r#"{"step":300}"#, "step", large),
            (r#"{"step":1,"order":"s`3, expected cret"}"#, "order", other),
            (&long, "steps", texts),
            (r#"{"step":1,"steps":["a"]}"#, "steps[0]", step),
            (r#"{"step":1,"steps":[[]]}"#, "steps[0]", length),
            (
                r#"{"step":1,"steps":[{"name":"a","size":-1}]}"#,
                "steps[0].size",
                size,
            ),
        ] {
            let error = parse(arguments).unwrap_err();
            assert_eq!((&*error.field, &*error.reason), (field, reason));
        }
        let whole = RawValue::from_string(r#"{"order":"s3cret"}"#.to_owned()).unwrap();
        let error = parse_arguments::<BTreeMap<String, Order>>(&whole).unwrap_err();
        assert_eq!((&*error.field, &*error.reason), ("order", other));
        assert!(parse(r#"{"toolCallId":"1","step":1}"#).is_ok());
    }
}
