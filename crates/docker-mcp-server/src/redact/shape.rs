//! Secrets by the shape of the text around them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{HIDDEN, is_placeholder, name};

/// What a secret looks like in running text. `head` and `tail` are shown, the rest is not; where
/// there is a `name`, only if it is a secret's.
const SHAPES: [&str; 9] = [
    // Private keys, also those that were cut off.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    // scheme://user:password@host
    r#"(?<head>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)(?<value>[^\s/@"']+)(?<tail>@)"#,
    // scheme://token@host
    r"(?<head>://)(?<value>[A-Za-z0-9_-]{16,})(?<tail>@)",
    // HTTP authorization.
    r"(?i)(?<head>\b(?:bearer|basic)\s+)(?<word>[A-Za-z0-9._~+/-]{8,}=*)",
    // Tokens that name their issuer.
    concat!(
        r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|dckr_pat_[\w-]{16,}",
        r"|sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{16,}|xox[abeoprs]-[\w-]{10,}|npm_\w{30,}",
        r"|hf_\w{20,}|AIza[\w-]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b)",
    ),
    r"(?<head>hooks\.slack\.com/services/)[\w/]+",
    // JSON Web Tokens.
    r"\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
    // --password value
    r#"(?<head>(?:^|[\s"'])--?(?<name>[A-Za-z][\w-]*)\s+)(?<value>"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"#,
    // name=value, name: value, "name": "value", also as JSON within JSON.
    concat!(
        r#"(?<head>(?<name>[A-Za-z][\w.-]*)(?<quote>\\?["'])?[ \t]*(?<sign>[:=])[ \t]*)"#,
        r#"(?<value>\\"(?:[^"\\\n]|\\[^"\n])*(?:\\")?|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?"#,
        r#"|[^\s,;&"'\\)\]}]+)"#,
    ),
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compiled = SHAPES.iter().map(|shape| Regex::new(shape));
    // That none is lost here is a test.
    compiled.filter_map(Result::ok).collect()
});

/// `text` with its secrets hidden, and how many there were.
pub(super) fn hide(text: Cow<'_, str>) -> (Cow<'_, str>, u32) {
    PATTERNS.iter().fold((text, 0), |(text, before), pattern| {
        match hide_shape(&text, pattern) {
            Some((text, hidden)) => (Cow::Owned(text), before + hidden),
            None => (text, before),
        }
    })
}

fn hide_shape(text: &str, pattern: &Regex) -> Option<(String, u32)> {
    let (mut out, mut copied, mut at, mut hidden) = (String::new(), 0, 0, 0);
    while let Some(found) = pattern.captures_at(text, at) {
        let whole = found.get_match();
        if is_secret(&found) {
            let group = |name| found.name(name).map_or("", |group| group.as_str());
            out.push_str(&text[copied..whole.start()]);
            out.extend([group("head"), HIDDEN, group("tail")]);
            hidden += 1;
            copied = whole.end();
            at = copied;
        } else {
            // What follows an innocent name may be a pair in turn: `url=http://h/?token=x`.
            at = found.name("head").map_or(whole.end(), |head| head.end());
        }
    }
    out.push_str(&text[copied..]);
    (hidden > 0).then_some((out, hidden))
}

fn is_secret(found: &Captures<'_>) -> bool {
    let group = |name| found.name(name).map(|group| group.as_str());
    // "Basic authentication" is prose.
    if let Some(word) = group("word") {
        return word.bytes().any(|byte| !byte.is_ascii_lowercase());
    }
    let value = group("value")
        .unwrap_or("-")
        .trim_matches(['"', '\'', '\\']);
    if is_placeholder(value) {
        return false;
    }
    let Some(name) = group("name") else {
        return true;
    };
    let prose = group("sign") == Some(":") && group("quote").is_none() && name::is_ambiguous(name);
    name::is_secret(name) && !prose
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
        let cases = [
            ("password=hunter2 next", "password=*** next"),
            ("PASSWORD: hunter2, user: bob", "PASSWORD: ***, user: bob"),
            (
                r#"{"api_key":"a \"b\" c","n":1}"#,
                r#"{"api_key":***,"n":1}"#,
            ),
            (
                r#""{\"token\":\"abc\",\"n\":1}""#,
                r#""{\"token\":***,\"n\":1}""#,
            ),
            (
                "GET /?a=1&access_token=abc&b=2",
                "GET /?a=1&access_token=***&b=2",
            ),
            ("url=http://h/?token=abc", "url=http://h/?token=***"),
            (
                "Server=db;User=sa;Password=x!y;",
                "Server=db;User=sa;Password=***;",
            ),
            ("amqp://guest:guest@mq:5672/", "amqp://guest:***@mq:5672/"),
            (
                "git clone https://abcdefghij0123456789@host/x",
                "git clone https://***@host/x",
            ),
            (
                "Authorization: Bearer abc.DEF-123",
                "Authorization: *** ***",
            ),
            ("-H 'X-Api-Key: abc'", "-H 'X-Api-Key: ***'"),
            (
                "run --password hunter2 --port 80",
                "run --password *** --port 80",
            ),
            ("key AKIAABCDEFGHIJKLMNOP used", "key *** used"),
            ("using ghp_0123456789abcdefghijABCDEF", "using ***"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln ok", "*** ok"),
            ("secret='a b' x", "secret=*** x"),
            ("secret=\"never closed", "secret=***"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nx",
                "***\nx",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIE", "***"),
        ];
        for (text, expected) in cases {
            let (shown, hidden) = hide(text.into());
            assert_eq!(shown, expected);
            assert!(hidden > 0);
        }
    }

    #[test]
    fn prose_is_left_alone() {
        let texts = [
            "GET /index.html HTTP/1.1 200",
            "duplicate entry for key: users.email",
            "tests: pass: 12 fail: 0",
            "Basic authentication is enabled",
            "http://registry:4873/@scope/x",
            "password: null",
            "listening on http://0.0.0.0:80",
            "token=",
            "2026-01-31T12:00:00Z level=info msg=\"started\" duration=3ms",
        ];
        for text in texts {
            assert!(
                matches!(hide(text.into()), (Cow::Borrowed(same), 0) if same == text),
                "{text}"
            );
        }
    }
}
