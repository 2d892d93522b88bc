//! Fast reading and writing of JSON strings without escapes.

use std::borrow::Cow;

/// The text of a JSON string; `None` for other JSON.
pub fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The text as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    push_quoted(&mut json, text);
    json
}

/// Adds the text as a JSON string.
pub fn push_quoted(json: &mut String, text: &str) {
    let needs_escape = |byte| matches!(byte, b'"' | b'\\' | ..b' ');
    if text.bytes().any(needs_escape) {
        json.push_str(&serde_json::Value::from(text).to_string());
    } else {
        json.extend(["\"", text, "\""]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_the_same_as_with_serde() {
        let escapes = ["\"", "a\\b", "\n\u{1f}", "\u{7f}\u{2028}"];
        for text in escapes.into_iter().chain(["", "plain", "ä 😀"]) {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(quoted(text), json);
            assert_eq!(string(&json).as_deref(), Some(text));
        }
        for bad in ["", "\"", "1", "null", "{}"] {
            assert_eq!(string(bad), None, "{bad}");
        }
    }
}
