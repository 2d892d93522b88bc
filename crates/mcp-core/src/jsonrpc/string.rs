//! Reading and writing of JSON strings; fast without escapes.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::word::Word;

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
    json.push('"');
    let mut rest = text;
    while let Some(at) = escape(rest.as_bytes()) {
        let (plain, escaped) = rest.split_at(at);
        json.push_str(plain);
        match escaped.as_bytes()[0] {
            b'"' => json.push_str("\\\""),
            b'\\' => json.push_str("\\\\"),
            b'\x08' => json.push_str("\\b"),
            b'\x0c' => json.push_str("\\f"),
            b'\n' => json.push_str("\\n"),
            b'\r' => json.push_str("\\r"),
            b'\t' => json.push_str("\\t"),
            // Writing to a string never fails.
            control => drop(write!(json, "\\u{control:04x}")),
        }
        rest = &escaped[1..];
    }
    json.push_str(rest);
    json.push('"');
}

/// The place of the first byte that a JSON string has to escape. Eight bytes at a time, which is a quarter of the work.
fn escape(text: &[u8]) -> Option<usize> {
    let (words, rest) = text.as_chunks();
    for (at, bytes) in words.iter().enumerate() {
        let word = Word::new(*bytes);
        let marks = word.equal(b'"').or(word.equal(b'\\')).or(word.less(b' '));
        if let Some(first) = marks.first() {
            return Some(8 * at + first);
        }
    }
    let needs_escape = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    let at = rest.iter().position(needs_escape)?;
    Some(8 * words.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_the_same_as_with_serde() {
        let escapes = [
            "\"",
            "a\\b",
            "\n\u{1f}",
            "\r\t\0\x08\x0c",
            "{\"a\":\"\\\\\"}",
            "\u{7f}\u{2028}",
        ];
        for text in escapes.into_iter().chain(["", "plain", "ä 😀"]) {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(quoted(text), json);
            assert_eq!(string(&json).as_deref(), Some(text));
        }
        // Each byte at each place of a word.
        for byte in 0..=127_u8 {
            for at in 0..20 {
                let mut text = "abcdefgh é 0123456789".to_owned();
                text.insert(text.ceil_char_boundary(at), byte.into());
                assert_eq!(quoted(&text), serde_json::to_string(&text).unwrap());
            }
        }
        for bad in ["", "\"", "1", "null", "{}"] {
            assert_eq!(string(bad), None, "{bad}");
        }
    }
}
