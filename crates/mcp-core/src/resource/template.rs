//! URI templates with one variable per path segment.

use serde_json::{Map, Value};

/// The names of the variables in `template`, in order.
pub(super) fn variables(template: &str) -> Vec<&str> {
    template
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .collect()
}

/// The variables that turn `template` into `uri`; `None` if it does not match.
///
/// A variable matches one or more characters, never a slash. Only level 1 of RFC 6570 is supported,
/// so matching is linear and a hostile URI cannot make it slow.
pub(super) fn matches(template: &str, uri: &str) -> Option<Map<String, Value>> {
    let mut found = Map::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((literal, rest)) = template.split_once('{') {
        uri = uri.strip_prefix(literal)?;
        let (name, after) = rest.split_once('}')?;
        let next = after.split('{').next().unwrap_or_default();
        let end = match next.chars().next() {
            Some(first) => uri.find(first)?,
            None => uri.len(),
        };
        let value = uri.get(..end)?;
        if value.is_empty() || value.contains('/') {
            return None;
        }
        found.insert(name.to_owned(), Value::String(percent_decoded(value)?));
        (template, uri) = (after, uri.get(end..)?);
    }
    (template == uri).then_some(found)
}

fn percent_decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_is_one_segment() {
        use serde_json::json;
        for (template, uri, expected) in [
            ("t://x/{id}/data", "t://x/12/data", json!({"id": "12"})),
            ("d://{a}/{b}", "d://x/y%20z", json!({"a": "x", "b": "y z"})),
            ("d://c", "d://c", json!({})),
            ("d://c", "d://c/", Value::Null),
            ("d://{a}", "d://x/y", Value::Null),
            ("d://{a}", "d://", Value::Null),
            ("d://{a}/logs", "d://x/stats", Value::Null),
            ("d://{a}", "d://%zz", Value::Null),
            ("d://{a}", "d://%ff", Value::Null),
        ] {
            let found = matches(template, uri).map(Value::Object);
            assert_eq!(found.unwrap_or_default(), expected, "{template} {uri}");
        }
    }

    #[test]
    fn variables_are_listed_in_order() {
        assert_eq!(variables("d://{a}/x/{b}"), ["a", "b"]);
        assert!(variables("d://a").is_empty());
    }
}
