//! Secrets by the shape of the text around them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// What a secret looks like in running text: the first group is shown, the rest is not.
const SHAPES: [&str; 6] = [
    // Private keys, also those that were cut off.
    r"()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    // scheme://user:password@host
    r#"(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)[^\s/@"']+@"#,
    // HTTP authorization; "basic authentication" is prose.
    r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/-]*[0-9=._~+/-][A-Za-z0-9._~+/=-]*",
    // Tokens that name their issuer.
    concat!(
        r"()\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}",
        r"|[sr]k_(?:live|test)_\w{16,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b)",
    ),
    r"(hooks\.slack\.com/services/)[\w/]+",
    // JSON Web Tokens.
    r"()\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // That none is lost here is a test.
    SHAPES
        .iter()
        .filter_map(|shape| Regex::new(shape).ok())
        .collect()
});

/// `text` with its secrets hidden; borrowed if there are none.
pub(super) fn hide(text: &str) -> Cow<'_, str> {
    let mut shown = Cow::Borrowed(text);
    for pattern in PATTERNS.iter() {
        if pattern.is_match(&shown) {
            let tail = if pattern.as_str().ends_with('@') {
                "@"
            } else {
                ""
            };
            let hidden = pattern.replace_all(&shown, format!("${{1}}***{tail}").as_str());
            shown = Cow::Owned(hidden.into_owned());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_compiles() {
        assert_eq!(PATTERNS.len(), SHAPES.len());
    }

    #[test]
    fn secrets_are_hidden_in_running_text() {
        for (text, expected) in [
            (
                "GET https://u:hunter2@h/x failed",
                "GET https://u:***@h/x failed",
            ),
            ("sent Bearer abc123def", "sent Bearer ***"),
            ("basic authentication failed", "basic authentication failed"),
            ("key sk-abcdefghijklmnopqrst!", "key ***!"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x_y", "***"),
            ("plain words", "plain words"),
        ] {
            assert_eq!(hide(text), expected);
        }
    }
}
