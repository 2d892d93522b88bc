//! The definition of a tool in one form, and its hash.

use std::collections::BTreeSet;

use hmac_sha256::Hash;
use mcp_core::jsonrpc::{Members, is_too_deep, quoted};
use serde_json::value::RawValue;
use upstream::text::{hexadecimal, is_invisible};

/// Returns a definition without its name, with the members of its objects in the order of their names: some
/// servers write them in another order in each process. Duplicates stay, since clients may read either.
pub(super) fn canonical(definition: &RawValue) -> String {
    match Members::read(definition.get()) {
        Some(mut members) if !is_too_deep(definition.get()) => {
            members.remove("name");
            ordered(&members.encode())
        }
        _ => definition.get().to_owned(),
    }
}

/// Returns the SHA-256 hash of a canonical definition, in hexadecimal digits.
pub(super) fn hash(canonical: &str) -> String {
    hexadecimal(&Hash::hash(canonical.as_bytes()))
}

fn ordered(json: &str) -> String {
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let members = Members::read(json).unwrap_or_default();
            let mut members: Vec<(&str, &str)> = members.iter().collect();
            // Stable: duplicates keep their order.
            members.sort_by_key(|(name, _)| *name);
            let members = members.into_iter();
            let members = members.map(|(name, value)| quoted(name) + ":" + &ordered(value));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            let items = items.into_iter().map(|item| ordered(item.get()));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        Some(b'"') => {
            let text = serde_json::from_str::<String>(json);
            text.map_or_else(|_| json.to_owned(), |text| quoted(&text))
        }
        _ => json.to_owned(),
    }
}

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

    fn form(json: &str) -> String {
        canonical(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn order_spaces_and_escapes_are_no_change() {
        let one =
            form(r#"{"name":"a","description":"\u0041b","inputSchema":{"x":[1, {"b":1,"a":2}]}}"#);
        let other =
            form(r#"{"inputSchema": {"x":[1,{"a":2,"b":1}]},"description":"Ab","name":"b"}"#);
        assert_eq!(one, other);
    }

    /// Clients read the first or the last one.
    #[test]
    fn duplicate_member_is_a_change() {
        let one = form(r#"{"annotations":{"title":"good"}}"#);
        for other in [
            r#"{"annotations":{"title":"bad","title":"good"}}"#,
            r#"{"annotations":{"title":"good","title":"bad"}}"#,
        ] {
            assert_ne!(one, form(other), "{other}");
        }
    }

    #[test]
    fn everything_else_is_a_change() {
        let one = form(r#"{"description":"a","inputSchema":{"type":"object"}}"#);
        for other in [
            r#"{"description":"a ","inputSchema":{"type":"object"}}"#,
            r#"{"description":"a","inputSchema":{"type":"object","required":[]}}"#,
            r#"{"description":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
        ] {
            assert_ne!(one, form(other), "{other}");
        }
    }

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
