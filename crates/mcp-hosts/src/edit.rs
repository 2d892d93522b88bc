//! Reads and edits the text of a host's file: JSON with or without comments, or TOML. The text of an error begins with
//! the line of the fault, from 1, if it is known, and shows nothing of the file, which may hold secrets.

use anyhow::{Context as _, anyhow, bail, ensure};
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item, Table, TomlError, de, ser};

use crate::host::{Format, Host};

/// The content of a file.
pub(crate) fn read(host: &Host, text: &str) -> anyhow::Result<Map<String, Value>> {
    let (_, text) = split_mark(text);
    if host.format == Format::Toml {
        return de::from_str(text).map_err(|error| broken_toml(text, &error.into()));
    }
    let parsed = parse_to_serde_value(text, &options(host.format));
    let value: Option<Value> = parsed.map_err(|error| {
        let (line, why) = (error.line_display(), error.kind());
        anyhow!(":{line}: is not valid JSON: {why}")
    })?;
    match value {
        Some(Value::Object(object)) => Ok(object),
        // Hosts take it for a file without servers, also with comments.
        None => Ok(Map::new()),
        Some(_) => bail!(": must be a JSON object"),
    }
}

/// The byte order mark with which editors of Windows begin a file, and the rest of the text.
fn split_mark(text: &str) -> (&str, &str) {
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    (&text[..text.len() - rest.len()], rest)
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
    let (mark, rest) = split_mark(text);
    let edited = match host.format {
        Format::Toml => set_toml(rest, host.key, name, entry)?,
        _ => set_json(rest, host, name, entry)?,
    };
    let edited = format!("{mark}{edited}");
    ensure!(
        is_change_of(host, text, &edited, name, entry)?,
        ": cannot be changed without changing other entries: add the entry by hand"
    );
    Ok(edited)
}

/// Returns the text as it was before [`set`] has written this entry into it, without the objects that it wrote for it. Where
/// the text does not tell, an object without servers goes.
pub(crate) fn unset(host: &Host, text: &str, name: &str, entry: &Value) -> anyhow::Result<String> {
    let kept = set(host, text, name, None)?;
    let servers = read(host, &kept)?.shift_remove(host.key);
    let is_empty = servers.is_some_and(|servers| servers.as_object().is_some_and(Map::is_empty));
    if host.format == Format::Toml || !is_empty {
        return Ok(kept);
    }
    let bare = without_servers(host, &kept)?;
    let was = |before: &str| set(host, before, name, Some(entry)).is_ok_and(|it| it == text);
    let is_own = was(&kept) && !was(&bare);
    Ok(if is_own { kept } else { bare })
}

/// Returns the text without the object of the servers. One with a comment stays, which somebody has written.
fn without_servers(host: &Host, text: &str) -> anyhow::Result<String> {
    let (mark, rest) = split_mark(text);
    let root = CstRootNode::parse(rest, &options(host.format));
    let root = root.map_err(|_| anyhow!(": is not valid JSON"))?;
    let servers = root.object_value().and_then(|file| file.get(host.key));
    let is_bare = |it: &CstObjectProp| {
        it.object_value()
            .is_some_and(|it| it.children().iter().all(|it| !it.is_comment()))
    };
    if let Some(servers) = servers.filter(is_bare) {
        servers.remove();
    }
    Ok(format!("{mark}{root}"))
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
    let servers = file.object_value(key);
    if let Some(entry) = entry.filter(|_| servers.is_none() && file.get(key).is_none()) {
        let servers = json!({name: entry});
        return Ok(add(text, &root, &file, key, &servers));
    }
    let servers = servers.with_context(|| format!(": `{key}` must be an object"))?;
    once(&servers, name)?;
    match (servers.get(name), entry) {
        (None, Some(entry)) => return Ok(add(text, &root, &servers, name, entry)),
        (Some(found), Some(entry)) => found.set_value(input(entry)),
        (Some(found), None) => found.remove(),
        (None, None) => {}
    }
    Ok(root.to_string())
}

/// Returns the text with a member more in an object of it. Where the object ends on the line of its last member, it still does.
fn add(text: &str, root: &CstRootNode, object: &CstObject, name: &str, value: &Value) -> String {
    let is_inline = |it: &CstObjectProp| {
        let last: CstNode = it.clone().into();
        last.next_siblings().all(|node| !node.is_newline())
    };
    let last = object.properties().pop().filter(is_inline);
    let Some(last) = last else {
        object.append(name, input(value));
        return root.to_string();
    };
    // The library would break the line.
    let before = |node: CstNode| -> usize {
        let earlier = node.previous_siblings();
        earlier.map(|node| node.to_string().len()).sum()
    };
    let last: CstNode = last.into();
    let ancestors = last.ancestors().map(|node| before(node.into()));
    let end = last.to_string().len() + before(last.clone()) + ancestors.sum::<usize>();
    let (head, tail) = text.split_at(end);
    format!("{head}, {}: {value}{tail}", json!(name))
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
    let edited = file.to_string();
    // The library ends all lines as Unix does.
    let is_of_windows = text.contains('\n')
        && text
            .split_inclusive('\n')
            .all(|line| line.ends_with("\r\n"));
    Ok(match is_of_windows {
        true => edited.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => edited,
    })
}
