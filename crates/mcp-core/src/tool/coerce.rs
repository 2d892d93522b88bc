//! Reads arguments as they are meant: clients write JSON, numbers and booleans into strings, numbers for ids, and
//! `null` or "" for what is optional. Only values that the tool refuses are changed; all others keep their bytes.

use serde_json::value::RawValue;
use serde_json::{Number, Value};
use serde_path_to_error::Segment;

use crate::jsonrpc::{Members, quoted, string};

/// Returns the JSON with each value in the type that its schema names; `None` if nothing changes.
pub(super) fn to_schema(json: &str, schema: &Value) -> Option<String> {
    let text = || string(json).map(|text| text.trim().to_owned());
    match (schema["type"].as_str()?, json.as_bytes().first()?) {
        ("object", b'{') => change_members(json, |name, value| {
            to_schema(value, &schema["properties"][name]).map(Some)
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
pub(super) fn without_blanks(json: &str, schema: &Value, path: &[&Segment]) -> Option<String> {
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
        let is_blank = value == "null" || value == r#""""# && (!is_text || path.len() == 1);
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
