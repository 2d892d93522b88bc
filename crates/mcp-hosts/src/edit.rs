//! Reads and edits the text of a host's file: JSON with or without comments, or TOML. The text of an error begins with
//! the line of the fault, from 1, if it is known, and shows nothing of the file, which may hold secrets.

use anyhow::{Context as _, anyhow, bail, ensure};
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item, Table, TomlError, de, ser};

use crate::host::{Format, Host};

/// The content of a file.
pub(crate) fn read(host: &Host, text: &str) -> anyhow::Result<Map<String, Value>> {
    if host.format == Format::Toml {
        return de::from_str(text).map_err(|error| broken_toml(text, &error.into()));
    }
    if text.trim().is_empty() {
        // Hosts take it for a file without servers.
        return Ok(Map::new());
    }
    let parsed = parse_to_serde_value(text, &options(host.format));
    let value: Value = parsed.map_err(|error| {
        let (line, why) = (error.line_display(), error.kind());
        anyhow!(":{line}: is not valid JSON: {why}")
    })?;
    match value {
        Value::Object(object) => Ok(object),
        _ => bail!(": must be a JSON object"),
    }
}

/// The entry of a server in a file.
pub(crate) fn entry(host: &Host, text: &str, name: &str) -> anyhow::Result<Option<Value>> {
    let mut file = read(host, text)?;
    let servers = file.get_mut(host.key).and_then(Value::as_object_mut);
    Ok(servers.and_then(|servers| servers.shift_remove(name)))
}

/// Returns the text with this entry, or without it.
pub(crate) fn set(
    host: &Host,
    text: &str,
    name: &str,
    entry: Option<&Value>,
) -> anyhow::Result<String> {
    let edited = match host.format {
        Format::Toml => set_toml(text, host.key, name, entry)?,
        _ => set_json(text, host, name, entry)?,
    };
    ensure!(
        is_change_of(host, text, &edited, name, entry)?,
        ": cannot be changed without changing other entries: add the entry by hand"
    );
    Ok(edited)
}

/// True if two texts have the same content except for this entry.
fn is_change_of(
    host: &Host,
    before: &str,
    after: &str,
    name: &str,
    entry: Option<&Value>,
) -> anyhow::Result<bool> {
    // Without servers, their key may be there or not.
    let content = |text: &str| {
        let mut file = read(host, text)?;
        let servers = file.shift_remove(host.key).unwrap_or_default();
        anyhow::Ok((file, servers.as_object().cloned().unwrap_or_default()))
    };
    let (mut expected, after) = (content(before)?, content(after)?);
    match entry {
        Some(entry) => _ = expected.1.insert(name.to_owned(), entry.clone()),
        None => _ = expected.1.shift_remove(name),
    }
    Ok(expected == after)
}

/// The syntax that a host reads.
fn options(format: Format) -> ParseOptions {
    ParseOptions {
        allow_comments: matches!(format, Format::JsonWithComments | Format::JsonWithCommas),
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

fn set_json(text: &str, host: &Host, name: &str, entry: Option<&Value>) -> anyhow::Result<String> {
    let key = host.key;
    if let Some(entry) = entry
        && text.trim().is_empty()
    {
        return Ok(format!("{:#}\n", json!({key: {name: entry}})));
    }
    // For its errors.
    read(host, text)?;
    let root = CstRootNode::parse(text, &options(host.format));
    let root = root.map_err(|_| anyhow!(": is not valid JSON"))?;
    let file = root.object_value_or_create();
    let file = file.context(": must be a JSON object")?;
    once(&file, key)?;
    if file.get(key).is_none() && entry.is_none() {
        return Ok(text.to_owned());
    }
    let servers = file.object_value_or_create(key);
    let servers = servers.with_context(|| format!(": `{key}` must be an object"))?;
    once(&servers, name)?;
    match (servers.get(name), entry) {
        (Some(found), Some(entry)) => found.set_value(input(entry)),
        (Some(found), None) => found.remove(),
        (None, Some(entry)) => _ = servers.append(name, input(entry)),
        (None, None) => {}
    }
    Ok(root.to_string())
}

/// Refuses an object with this name twice: hosts differ in which of them counts.
fn once(object: &CstObject, name: &str) -> anyhow::Result<()> {
    let properties = object.properties().into_iter();
    let named = properties.filter(|property| property.decoded_name().as_deref() == Some(name));
    ensure!(
        named.count() <= 1,
        ": has {name:?} twice: remove one of them"
    );
    Ok(())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| (name.clone(), input(value));
            CstInputValue::Object(members.iter().map(member).collect())
        }
    }
}

/// The fault of a text. The whole error shows the line.
fn broken_toml(text: &str, error: &TomlError) -> anyhow::Error {
    let line = |start: usize| text[..start].matches('\n').count() + 1;
    let line = error.span().map(|span| format!(":{}", line(span.start)));
    let why = error.message();
    anyhow!("{}: is not valid TOML: {why}", line.unwrap_or_default())
}

fn set_toml(text: &str, key: &str, name: &str, entry: Option<&Value>) -> anyhow::Result<String> {
    let parsed = text.parse::<DocumentMut>();
    let mut file = parsed.map_err(|error| broken_toml(text, &error))?;
    if entry.is_none() && file.get(key).is_none() {
        return Ok(text.to_owned());
    }
    let servers = file.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let is_inline = servers.is_inline_table();
    let servers = servers.as_table_like_mut();
    let servers = servers.with_context(|| format!(": `{key}` must be a table"))?;
    match entry {
        Some(entry) => {
            let table = ser::to_document(entry)?.as_table().clone();
            let item = match is_inline {
                true => Item::Value(table.into_inline_table().into()),
                false => Item::Table(table),
            };
            servers.insert(name, item);
        }
        None => _ = servers.remove(name),
    }
    Ok(file.to_string())
}
