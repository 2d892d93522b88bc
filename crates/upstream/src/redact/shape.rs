//! Recognises secrets by their shape and the text around them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{HIDDEN, is_placeholder, name};

/// The shapes to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Shapes that only secrets have.
    Tokens,
    /// Also values with a secret's name in front.
    Pairs,
}

/// Private keys, also truncated ones. The only secrets of more than one line.
const PRIVATE_KEY: &str =
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)";

/// Matches every line with one of the shapes below, and few others: lines without it are skipped.
const HINT: &str = concat!(
    r"(?:://|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|dckr_pat_|sk-|[sr]k_|xox|xapp-|npm_|hf_|pypi-|SG\.",
    r"|AIza|AKIA|ASIA|hooks\.slack|eyJ|(?i-u:bearer|basic|pass|pwd|pw|secret|token|key|auth",
    r"|cred|jwt|dsn|cookie|salt|pat|session))",
);

/// The shapes of secrets in running text. `head` and `tail` are shown, the rest is hidden; with a
/// `name` or a `parameter`, only if that is a secret's.
const TOKENS: [&str; 7] = [
    // scheme://user:password@host
    r#"(?<head>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)(?<value>[^\s/@"']+)(?<tail>@)"#,
    // scheme://token@host
    r"(?<head>://)(?<value>[A-Za-z0-9_-]{16,})(?<tail>@)",
    // HTTP authorization.
    r"(?i)(?<head>\b(?:bearer|basic)\s+)(?<word>[A-Za-z0-9._~+/-]{4,}=*)",
    // Tokens that name their issuer.
    concat!(
        r"(?-u)\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|gl(?:pat|rt|dt|ptt|cbt)-[\w-]{16,}",
        r"|dckr_pat_[\w-]{16,}|sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{16,}|xox[abeoprs]-[\w-]{10,}",
        r"|xapp-[\w-]{10,}|npm_\w{30,}|hf_\w{20,}|pypi-[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}",
        r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b)",
    ),
    r"(?-u)(?<head>hooks\.slack\.com/services/)[\w/]+",
    // JSON Web Tokens.
    r"(?-u)\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
    // ?name=value&name=value, but not an expression.
    r#"(?<head>[?&](?<parameter>[\w.-]+)=)(?<value>[^&#\s"'{}$<>=][^&#\s"'{}<>]*)"#,
];

const PAIRS: [&str; 2] = [
    // --password value
    r#"(?<head>(?:^|[\s"'])--?(?<name>[A-Za-z][\w-]*)\s+)(?<value>"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"#,
    // name=value, name: value, "name": "value", also as JSON within JSON.
    concat!(
        r#"(?<head>(?<name>[A-Za-z][\w.-]*)(?<quote>\\?["'])?[ \t]*(?<sign>[:=])[ \t]*)"#,
        r#"(?<value>\\"(?:[^"\\\n]|\\[^"\n])*(?:\\")?|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?"#,
        r#"|[^\s,;&"'\\)\]}]+)"#,
    ),
];

struct Shapes {
    private_key: Option<Regex>,
    hint: Option<Regex>,
    tokens: Vec<Regex>,
    pairs: Vec<Regex>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    // The test `every_shape_compiles` shows that none is skipped here.
    let all = |shapes: &[&str]| shapes.iter().filter_map(|it| Regex::new(it).ok()).collect();
    Shapes {
        private_key: Regex::new(PRIVATE_KEY).ok(),
        hint: Regex::new(HINT).ok(),
        tokens: all(&TOKENS),
        pairs: all(&PAIRS),
    }
});

/// `text` with its secrets hidden, and how many there were.
pub(super) fn hide(text: Cow<'_, str>, reach: Reach) -> (Cow<'_, str>, u32) {
    let (text, keys) = hide_shape(text, SHAPES.private_key.iter());
    let hint = |line: &str| SHAPES.hint.as_ref().is_none_or(|hint| hint.is_match(line));
    if !hint(&text) {
        return (text, keys);
    }
    let pairs: &[Regex] = match reach {
        Reach::Tokens => &[],
        Reach::Pairs => &SHAPES.pairs,
    };
    let (mut out, mut hidden) = (String::new(), 0);
    for line in text.split_inclusive('\n') {
        if !hint(line) {
            out.push_str(line);
            continue;
        }
        let (shown, found) = hide_shape(line.into(), SHAPES.tokens.iter().chain(pairs));
        out.push_str(&shown);
        hidden += found;
    }
    match hidden {
        0 => (text, keys),
        _ => (Cow::Owned(out), keys + hidden),
    }
}

fn hide_shape<'t>(
    text: Cow<'t, str>,
    shapes: impl Iterator<Item = &'static Regex>,
) -> (Cow<'t, str>, u32) {
    shapes.fold((text, 0), |(text, before), shape| {
        let (mut out, mut copied, mut at, mut hidden) = (String::new(), 0, 0, 0);
        while let Some(found) = shape.captures_at(&text, at) {
            let whole = found.get_match();
            if is_secret(&found) {
                let group = |name| found.name(name).map_or("", |group| group.as_str());
                out.push_str(&text[copied..whole.start()]);
                out.extend([group("head"), HIDDEN, group("tail")]);
                hidden += 1;
                copied = whole.end();
                at = copied;
            } else {
                // A pair may follow a harmless name: `url=http://h/?token=x`.
                at = found.name("head").map_or(whole.end(), |head| head.end());
            }
        }
        if hidden == 0 {
            return (text, before);
        }
        out.push_str(&text[copied..]);
        (Cow::Owned(out), before + hidden)
    })
}

fn is_secret(found: &Captures<'_>) -> bool {
    let group = |name| found.name(name).map(|group| group.as_str());
    if let Some(word) = group("word") {
        // Not in prose: "Basic authentication is enabled."
        let word = word.trim_end_matches('.');
        let plain = word.bytes().all(|byte| byte.is_ascii_lowercase());
        let short = word
            .bytes()
            .any(|byte| byte.is_ascii_digit() || byte == b'=');
        return if word.len() < 8 { short } else { !plain };
    }
    let value = group("value")
        .unwrap_or("-")
        .trim_matches(['"', '\'', '\\']);
    if is_placeholder(value) {
        return false;
    }
    if let Some(parameter) = group("parameter") {
        return name::is_secret_member(parameter);
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
        assert!(SHAPES.private_key.is_some() && SHAPES.hint.is_some());
        assert_eq!(SHAPES.tokens.len(), TOKENS.len());
        assert_eq!(SHAPES.pairs.len(), PAIRS.len());
    }

    /// Each token that names its issuer, put together here so that no scanner takes it for one.
    #[test]
    fn tokens_are_hidden_in_any_context() {
        let tail = "0123456789abcdefghijABCDEFGHIJKLMNOP";
        let issuers = "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glrt- dckr_pat_ sk- sk-ant- \
            sk-proj- sk_live_ rk_test_ xoxb- xoxp- xapp- npm_ hf_ pypi- AIza \
            https://hooks.slack.com/services/T0/";
        for issuer in issuers.split(' ') {
            let secret = format!("{issuer}{tail}");
            for text in [
                secret.clone(),
                format!("using {secret}, as told"),
                format!("x=\"{secret}\"\nnext"),
            ] {
                for reach in [Reach::Tokens, Reach::Pairs] {
                    let (shown, hidden) = hide(text.as_str().into(), reach);
                    assert!(!shown.contains(tail) && hidden == 1, "{text}: {shown}");
                }
            }
        }
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
                "GET https://u:hunter2@h/x failed",
                "GET https://u:***@h/x failed",
            ),
            (
                "git clone https://abcdefghij0123456789@host/x",
                "git clone https://***@host/x",
            ),
            (
                "Authorization: Bearer abc.DEF-123",
                "Authorization: *** ***",
            ),
            ("sent Bearer abc123", "sent Bearer ***"),
            ("Basic dTpw", "Basic dTpw"),
            ("Basic dTpwdw==", "Basic ***"),
            // Words of fewer than eight letters are prose unless they have a digit.
            ("Bearer Abcdefg", "Bearer Abcdefg"),
            ("Bearer Abcdefg1", "Bearer ***"),
            ("Bearer Abcdefgh", "Bearer ***"),
            ("Bearer abcdefgh", "Bearer abcdefgh"),
            ("key=abc", "key=***"),
            (r#"{"key":"abc"}"#, r#"{"key":***}"#),
            ("-H 'X-Api-Key: abc'", "-H 'X-Api-Key: ***'"),
            (
                "run --password hunter2 --port 80",
                "run --password *** --port 80",
            ),
            ("key AKIAABCDEFGHIJKLMNOP used", "key *** used"),
            ("key sk-abcdefghijklmnopqrst!", "key ***!"),
            ("SG.0123456789abcdefgh.0123456789abcdefgh", "***"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln ok", "*** ok"),
            ("secret='a b' x", "secret=*** x"),
            ("secret=\"never closed", "secret=***"),
            ("plain\ntoken=a\nplain\n", "plain\ntoken=***\nplain\n"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nx",
                "a\n***\nx",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIE", "***"),
        ];
        for (text, expected) in cases {
            let (shown, hidden) = hide(text.into(), Reach::Pairs);
            assert_eq!(shown, expected);
            assert_eq!(hidden > 0, text != expected);
        }
    }

    #[test]
    fn every_hidden_secret_is_counted() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n";
        let text = "\npassword=a secret=b Bearer abc123 amqp://u:p@h amqp://u:q@h\ntoken=c";
        let shown =
            "***\n\npassword=*** secret=*** Bearer *** amqp://u:***@h amqp://u:***@h\ntoken=***";
        let found = hide(format!("{key}{text}").into(), Reach::Pairs);
        assert_eq!(found, (shown.into(), 7));
    }

    #[test]
    fn prose_is_not_redacted() {
        let texts = [
            "GET /index.html HTTP/1.1 200",
            "duplicate entry for key: users.email",
            "tests: pass: 12 fail: 0",
            "Basic authentication is enabled",
            "The bearer token is missing. Basic auth.",
            "http://registry:4873/@scope/x",
            "password: null",
            "listening on http://0.0.0.0:80",
            "token=",
            "http://h/?page=2&next_token=",
            "2026-01-31T12:00:00Z level=info msg=\"started\" duration=3ms",
        ];
        for text in texts {
            let shown = hide(text.into(), Reach::Pairs);
            assert!(
                matches!(&shown, (Cow::Borrowed(same), 0) if *same == text),
                "{text} {shown:?}"
            );
        }
    }

    #[test]
    fn long_logs_are_redacted_fast() {
        let line = "2026-01-31T12:00:00Z level=info msg=\"request done\" status=200 user=bob\n";
        let log = format!(
            "{}password=hunter2\n{}",
            line.repeat(20_000),
            line.repeat(20_000)
        );
        let began = std::time::Instant::now();
        let (shown, hidden) = hide(log.as_str().into(), Reach::Pairs);
        assert_eq!(hidden, 1);
        assert_eq!(shown.len(), log.len() - "hunter2".len() + HIDDEN.len());
        // 3 MB; would take longer if all shapes were matched on every line, in a debug build.
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    }
}
