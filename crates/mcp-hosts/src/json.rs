//! Edits a file in JSON, with or without comments.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::host::Format;

/// The syntax that a host reads.
fn options(format: Format) -> ParseOptions {
    let is_plain = !matches!(format, Format::JsonWithComments | Format::JsonWithCommas);
    ParseOptions {
        allow_comments: !is_plain,
        allow_trailing_commas: format == Format::JsonWithCommas,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The object of a file.
pub(crate) fn read(text: &str, format: Format) -> Result<Map<String, Value>, Fault> {
    if is_blank(text) {
        return Ok(Map::new());
    }
    let value: Value = parse_to_serde_value(text, &options(format)).map_err(|error| Fault {
        line: Some(error.line_display()),
        reason: format!("is not valid JSON: {}", error.kind()),
    })?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Fault::new("must be a JSON object")),
    }
}

/// Returns the text with an entry below `key`, or without it.
pub(crate) fn edit(
    text: &str,
    format: Format,
    key: &str,
    name: &str,
    entry: Option<&Value>,
) -> Result<String, Fault> {
    if let Some(entry) = entry
        && is_blank(text)
    {
        let file = json!({key: {name: entry}});
        return Ok(format!("{file:#}\n"));
    }
    read(text, format)?;
    let root = CstRootNode::parse(text, &options(format));
    let root = root.map_err(|error| Fault::new(format!("is not valid JSON: {error}")))?;
    let file = root.object_value_or_create();
    let file = file.ok_or_else(|| Fault::new("must be a JSON object"))?;
    once(&file, key)?;
    let servers = match (file.get(key), entry) {
        (None, None) => return Ok(text.to_owned()),
        _ => file.object_value_or_create(key),
    };
    let servers = servers.ok_or_else(|| Fault::new(format!("`{key}` must be an object")))?;
    once(&servers, name)?;
    match (servers.get(name), entry) {
        (Some(found), Some(entry)) => found.set_value(input(entry)),
        (Some(found), None) => found.remove(),
        (None, Some(entry)) => _ = servers.append(name, input(entry)),
        (None, None) => {}
    }
    Ok(root.to_string())
}

/// True for a file without content, which hosts take for one without servers.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Refuses an object with this name twice: hosts differ in which of them counts.
fn once(object: &CstObject, name: &str) -> Result<(), Fault> {
    let properties = object.properties().into_iter();
    let named = properties.filter(|property| property.decoded_name().as_deref() == Some(name));
    match named.count() {
        0 | 1 => Ok(()),
        _ => Err(Fault::new(format!(
            "has {name:?} twice: remove one of them"
        ))),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            let members = members.iter();
            CstInputValue::Object(
                members
                    .map(|(name, value)| (name.clone(), input(value)))
                    .collect(),
            )
        }
    }
}
