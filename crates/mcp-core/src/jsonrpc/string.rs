//! Reading and writing of JSON strings.

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
    // A text always serialises.
    serde_json::to_string(text).unwrap_or_default()
}

/// Adds the text as a JSON string.
pub fn push_quoted(json: &mut String, text: &str) {
    json.push_str(&quoted(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strings_have_a_text() {
        for text in ["", "plain", "ä 😀", "a\\b\"\n\u{1f}\0", "{\"a\":\"\\\\\"}"] {
            assert_eq!(string(&quoted(text)).as_deref(), Some(text));
        }
        for bad in ["", "\"", "1", "null", "{}"] {
            assert_eq!(string(bad), None, "{bad}");
        }
    }
}
