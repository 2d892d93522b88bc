//! The difference between two definitions, for a terminal.

use std::collections::BTreeSet;

use mcp_core::jsonrpc::{Members, quoted};
use serde_json::value::RawValue;
use upstream::text::is_invisible;

/// Returns one line for each value that was removed (`-`) or added (`+`), with its place.
pub fn diff(old: &str, new: &str) -> Vec<String> {
    let (before, after) = (values(old), values(new));
    let old: BTreeSet<&(String, String)> = before.iter().collect();
    let new: BTreeSet<&(String, String)> = after.iter().collect();
    let mut lines: Vec<(&(String, String), char)> = Vec::new();
    lines.extend(old.difference(&new).map(|value| (*value, '-')));
    lines.extend(new.difference(&old).map(|value| (*value, '+')));
    // Both sides of one place are next to each other, the old one first.
    lines.sort_by(|(one, sign), (other, with)| {
        (&one.0, with, &one.1).cmp(&(&other.0, sign, &other.1))
    });
    let line = |((place, value), sign): (&(String, String), char)| {
        printable(&format!("{sign} {place}: {value}"))
    };
    lines.into_iter().map(line).collect()
}

/// Escapes the characters that a terminal would obey or hide.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() || is_invisible(letter) {
            true => out.extend(letter.escape_unicode()),
            false => out.push(letter),
        }
    }
    out
}

/// The values of a definition, with their places.
fn values(json: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    add("", json, &mut found);
    found
}

fn add(place: &str, json: &str, found: &mut Vec<(String, String)>) {
    let json = json.trim();
    let step = |name: &str| match place.is_empty() {
        true => name.to_owned(),
        false => format!("{place}.{name}"),
    };
    let mut is_empty = true;
    match json.as_bytes().first() {
        Some(b'{') => {
            for (name, value) in Members::read(json).unwrap_or_default().iter() {
                is_empty = false;
                let is_plain = !name.is_empty()
                    && name
                        .chars()
                        .all(|c| c.is_alphanumeric() || "_-$".contains(c));
                let name = if is_plain {
                    name.to_owned()
                } else {
                    quoted(name)
                };
                add(&step(&name), value, found);
            }
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            for (at, item) in items.into_iter().enumerate() {
                is_empty = false;
                add(&step(&at.to_string()), item.get(), found);
            }
        }
        _ => {}
    }
    if is_empty {
        found.push((place.to_owned(), json.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_value_has_a_line() {
        let old =
            r#"{"description":"Works.","inputSchema":{"properties":{"a":{"type":"string"}}}}"#;
        let new = r#"{"description":"Steals.","inputSchema":{"properties":{"a":{"type":"string"},"b c":{}}}}"#;
        let expected = [
            r#"- description: "Works.""#,
            r#"+ description: "Steals.""#,
            r#"+ inputSchema.properties."b c": {}"#,
        ];
        assert_eq!(diff(old, new), expected);
        assert!(diff(old, old).is_empty());
    }

    #[test]
    fn terminal_gets_no_commands_and_no_hidden_text() {
        let new = "{\"a\u{202e}\":\"\u{1b}[2J\u{9b}x\u{200b}\"}";
        let lines = diff("{}", new).join("\n");
        assert!(
            lines.contains("\\u{202e}") && lines.contains("\\u{9b}"),
            "{lines}"
        );
        assert!(!lines.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{200b}']));
    }
}
