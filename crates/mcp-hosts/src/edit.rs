//! Edits the text of a host's file, whatever its syntax.

use serde_json::{Map, Value};

use crate::error::Fault;
use crate::host::{Format, Host};
use crate::text::Plain;
use crate::{json, toml};

/// The content of a file.
pub(crate) fn read(host: &Host, text: &str) -> Result<Map<String, Value>, Fault> {
    let plain = Plain::new(text).text;
    match host.format {
        Format::Toml => toml::read(&plain),
        format => json::read(&plain, format),
    }
}

/// The entry of a server in a file.
pub(crate) fn entry(host: &Host, text: &str, name: &str) -> Result<Option<Value>, Fault> {
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
) -> Result<String, Fault> {
    let plain = Plain::new(text);
    let edited = match host.format {
        Format::Toml => toml::edit(&plain.text, host.key, name, entry)?,
        format => json::edit(&plain.text, format, host.key, name, entry)?,
    };
    let edited = plain.with(&edited);
    match is_change_of(host, text, &edited, name, entry)? {
        true => Ok(edited),
        false => Err(Fault::new(
            "cannot be changed without changing other entries: add the entry by hand",
        )),
    }
}

/// True if two texts have the same content except for this entry.
pub(crate) fn is_change_of(
    host: &Host,
    before: &str,
    after: &str,
    name: &str,
    entry: Option<&Value>,
) -> Result<bool, Fault> {
    let (mut expected, mut after) = (read(host, before)?, read(host, after)?);
    match entry {
        Some(entry) => {
            let servers = expected
                .entry(host.key)
                .or_insert_with(|| Map::new().into());
            let Some(servers) = servers.as_object_mut() else {
                return Ok(false);
            };
            servers.insert(name.to_owned(), entry.clone());
        }
        None => {
            let remove = |file: &mut Map<String, Value>| {
                let servers = file.get_mut(host.key).and_then(Value::as_object_mut);
                let Some(servers) = servers else { return };
                servers.shift_remove(name);
                // Without servers, the key may be there or not.
                if servers.is_empty() {
                    file.shift_remove(host.key);
                }
            };
            let has_entry = entry_in(&after, host.key, name);
            remove(&mut expected);
            remove(&mut after);
            if has_entry {
                return Ok(false);
            }
        }
    }
    Ok(expected == after)
}

fn entry_in(file: &Map<String, Value>, key: &str, name: &str) -> bool {
    let servers = file.get(key).and_then(Value::as_object);
    servers.is_some_and(|servers| servers.contains_key(name))
}
