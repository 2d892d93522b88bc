//! Edits the text of a host's file, whatever its syntax.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::error::Fault;
use crate::host::{Format, Host};
use crate::{json, toml};

/// The byte order mark, which a file may begin with.
const MARK: &str = "\u{feff}";

/// The content of a file.
pub(crate) fn read(host: &Host, text: &str) -> Result<Map<String, Value>, Fault> {
    let plain = plain(text);
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
    let plain = plain(text);
    let mut edited = match host.format {
        Format::Toml => toml::edit(&plain, host.key, name, entry)?,
        format => json::edit(&plain, format, host.key, name, entry)?,
    };
    if is_windows(text) {
        edited = edited.replace('\n', "\r\n");
    }
    if text.starts_with(MARK) {
        edited.insert_str(0, MARK);
    }
    match is_change_of(host, text, &edited, name, entry)? {
        true => Ok(edited),
        false => Err(Fault::new(
            "cannot be changed without changing other entries: add the entry by hand",
        )),
    }
}

/// A text as an editor of its syntax reads it: without byte order mark, and with `\n` as line end.
fn plain(text: &str) -> Cow<'_, str> {
    let plain = text.strip_prefix(MARK).unwrap_or(text);
    match is_windows(text) {
        true => plain.replace("\r\n", "\n").into(),
        false => plain.into(),
    }
}

/// True if all lines end as on Windows. In a file with both ends, new lines end with `\n`.
fn is_windows(text: &str) -> bool {
    let lines = text.matches('\n').count();
    lines > 0 && text.matches("\r\n").count() == lines
}

/// True if two texts have the same content except for this entry.
pub(crate) fn is_change_of(
    host: &Host,
    before: &str,
    after: &str,
    name: &str,
    entry: Option<&Value>,
) -> Result<bool, Fault> {
    // Without servers, their key may be there or not.
    let content = |text: &str| {
        let mut file = read(host, text)?;
        let servers = file.shift_remove(host.key).unwrap_or_default();
        Ok::<_, Fault>((file, servers.as_object().cloned().unwrap_or_default()))
    };
    let (mut expected, after) = (content(before)?, content(after)?);
    match entry {
        Some(entry) => _ = expected.1.insert(name.to_owned(), entry.clone()),
        None => _ = expected.1.shift_remove(name),
    }
    Ok(expected == after)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::HOSTS;

    #[test]
    fn line_ends_stay() {
        let entry = json!({});
        for (text, is_kept) in [
            ("{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"a\": 1,\r\n"),
            (
                "\u{feff}{\r\n  \"a\": 1\r\n}",
                "\u{feff}{\r\n  \"a\": 1,\r\n",
            ),
            (
                "{\n  \"a\": 1,\r\n  \"b\": 2\n}",
                "{\n  \"a\": 1,\r\n  \"b\": 2",
            ),
        ] {
            let edited = set(&HOSTS[0], text, "x", Some(&entry)).unwrap();
            assert!(edited.starts_with(is_kept), "{edited:?}");
        }
    }
}
