//! Edits a file in TOML.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use crate::error::Fault;

fn parse(text: &str) -> Result<DocumentMut, Fault> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let start = error.span().map(|span| span.start);
        Fault {
            line: start.map(|start| text[..start].matches('\n').count() + 1),
            // The whole error shows the line, which may hold a secret.
            reason: format!("is not valid TOML: {}", error.message()),
        }
    })
}

/// The tables of a file.
pub(crate) fn read(text: &str) -> Result<Map<String, Value>, Fault> {
    Ok(object(parse(text)?.as_table()))
}

/// Returns the text with an entry below `key`, or without it.
pub(crate) fn edit(
    text: &str,
    key: &str,
    name: &str,
    entry: Option<&Value>,
) -> Result<String, Fault> {
    let mut file = parse(text)?;
    if entry.is_none() && file.get(key).is_none() {
        return Ok(text.to_owned());
    }
    let servers = file.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let is_inline = servers.is_inline_table();
    let Some(servers) = servers.as_table_like_mut() else {
        return Err(Fault::new(format!("`{key}` must be a table")));
    };
    match entry {
        Some(Value::Object(entry)) if is_inline => {
            servers.insert(name, Item::Value(inline(entry).into()));
        }
        Some(Value::Object(entry)) => {
            let mut table = Table::new();
            for (field, value) in entry {
                table.insert(field, Item::Value(item(value)));
            }
            servers.insert(name, Item::Table(table));
        }
        Some(_) => return Err(Fault::new("an entry must be a table")),
        None => _ = servers.remove(name),
    }
    Ok(file.to_string())
}

fn item(value: &Value) -> toml_edit::Value {
    match value {
        // TOML has no null; entries have none.
        Value::Null => "".into(),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => values.iter().map(item).collect::<Array>().into(),
        Value::Object(members) => inline(members).into(),
    }
}

fn inline(members: &Map<String, Value>) -> InlineTable {
    members
        .iter()
        .map(|(name, value)| (name, item(value)))
        .collect()
}

fn object(table: &dyn TableLike) -> Map<String, Value> {
    let members = table.iter().filter(|(_, item)| !item.is_none());
    members
        .map(|(name, item)| (name.to_owned(), json(item)))
        .collect()
}

fn json(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return object(table).into();
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables
            .iter()
            .map(|table| Value::Object(object(table)))
            .collect();
    }
    item.as_value().map_or(Value::Null, json_value)
}

fn json_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(value) => (*value.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(values) => values.iter().map(json_value).collect(),
        toml_edit::Value::InlineTable(table) => object(table).into(),
    }
}
