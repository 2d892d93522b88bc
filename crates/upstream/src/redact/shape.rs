//! Recognises secrets by their shape and the text around them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{HIDDEN, is_placeholder, key_body, name};

/// The shapes to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Shapes that only secrets have, and literals in code with a secret's name.
    Tokens,
    /// Also values with a secret's name in front.
    Pairs,
}

/// Private keys, also truncated ones. The only secrets of more than one line.
const PRIVATE_KEY: &str = r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)";

/// Matches every line with one of the shapes below, and few others: lines without it are skipped.
const HINT: &str = concat!(
    r"(?:://|jdbc:|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|dckr_pat_|sk-|[sr]k_|xox|xapp-|npm_|hf_|pypi-|SG\.",
    r"|AIza|AKIA|ASIA|hooks\.|eyJ|ya29\.|AGE-SECRET|GOCSPX|shp[a-z]{2}_|do[opr]_v1|glsa_|hv[sb]\.",
    r"|gsk_|xai-|nvapi-|tskey-|xkeysib-|NRAK-|dapi|ATATT|r8_|:AA|\$(?:apr1|2[abxy]|[156y]|argon2)",
    r"|\{SHA\}|(?i-u:bearer|basic|pass|pwd|pw|secret|token|key|auth|cred|jwt|dsn|cookie|salt|otp|p(?:at|in)[ -@\[-`{-~]|sess",
    r"|mysql|maria|redis|curl|-user|login|mongo|identified|webhook|sig=|signature|mnemonic|ldap))",
);

/// The shapes of secrets in running text. `head` and `tail` are shown, the rest is hidden; with a
/// `name` or a `parameter`, only if that is a secret's.
const TOKENS: [&str; 15] = [
    // scheme://user:password@host
    r#"(?<head>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)(?<value>[^\s/"']+)(?<tail>@)"#,
    // An address of Oracle: user/password@host
    r#"(?<head>\bjdbc:oracle:\w+:[\w.]+/)(?<value>[^\s/@"']+)(?<tail>@)"#,
    // scheme://token@host
    r"(?<head>://)(?<value>[A-Za-z0-9_-]{16,})(?<tail>@)",
    // HTTP authorization and cookies: some take the rest of the line.
    r#"(?i)(?<head>authorization["']?\s*[:=]\s*["']?(?:token|negotiate|ntlm|apikey|splunk)\s+)(?<value>[^\s"',;]+)"#,
    r#"(?i)(?<head>(?:authorization|token)["']?\s*[:=]\s*["']?(?:bearer|basic)\s+)(?<value>[^\s"',;{}$<>]{6,})"#,
    concat!(
        r#"(?i)(?<head>authorization["']?\s*[:=]\s*["']?(?:digest|hawk|hmac\S*|aws4\S+)\s+"#,
        r#"|\bcookie["']?\s*[:=]\s*["']?)(?<value>[\w.-]+=[^\n]+)"#,
    ),
    r"(?i)(?<head>\b(?:bearer|basic)\s+)(?<word>[A-Za-z0-9._~+/-]{4,}=*)",
    // Tokens that name their issuer.
    concat!(
        r"(?-u)\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|gl(?:pat|rt|dt|ptt|cbt)-[\w-]{16,}",
        r"|dckr_pat_[\w-]{16,}|sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{16,}|xox[abeoprs]-[\w-]{10,}",
        r"|xapp-[\w-]{10,}|npm_\w{30,}|hf_\w{20,}|pypi-[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}",
        r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|SG\.[\w-]{20,}|ya29\.[\w-]{10,}",
        r"|AGE-SECRET-KEY-[0-9A-Z]{10,}|GOCSPX-[\w-]{10,}|shp(?:at|ss|ca|pa)_\w{16,}|do[opr]_v1_\w{16,}",
        r"|glsa_\w{16,}|hv[sb]\.[\w-]{16,}|gsk_\w{16,}|xai-\w{16,}|nvapi-[\w-]{16,}",
        r"|tskey-[\w-]{12,}|xkeysib-[\w-]{16,}|NRAK-\w{16,}|dapi[0-9a-f]{32}|ATATT[\w-]{16,}|r8_\w{16,})",
    ),
    // The paths of webhooks.
    concat!(
        r"(?-u)(?<head>hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/\d+/",
        r"|hooks\.zapier\.com/hooks/catch/|webhook\.office\.com/webhookb2/)[\w/@-]+",
    ),
    // The token of a Telegram bot.
    r"(?-u)(?<head>\b(?:bot)?\d{8,10}:)AA[\w-]{20,}",
    // Hashes of passwords; compose files double their dollar signs.
    r"(?-u)\$\$?(?:apr1|2[abxy]|[156y]|argon2(?:id|i|d))\$\$?[\w./$=,+-]{8,}|\{SHA\}[\w+/=]{20,}",
    // curl -u user:password
    r#"(?<head>(?:^|[\s"',])(?:-u|-U|--user|--proxy-user)[\s=,"']+[^\s:"'/=]*[^\s\d:"'/=][^\s:"'/=]*:)(?<value>[^\s"']+)"#,
    // Programs whose flag for the password does not say so.
    concat!(
        r#"(?<head>\b(?:(?:mysql|mariadb)[\w-]*\b[^|;&\n]*?[\s"']-p["']?|curl\b[^|;&\n]*?[\s"']-u[^\s:"']+:"#,
        r#"|redis-cli\b[^|;&\n]*?[\s"']-a[\s"',]+|(?:mongo\w*|sshpass|login)\b[^|;&\n]*?[\s"']-p[\s"',]*"#,
        r#"|ldap\w+\b[^|;&\n]*?[\s"']-w[\s"',]+))(?<value>[^\s"',]+)"#,
    ),
    // JSON Web Tokens.
    r"(?-u)\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
    // ?name=value&name=value or #name=value, but not an expression.
    r#"(?<head>[?&#](?<parameter>[\w.-]+)=)(?<value>[^&#\s"'{}$<>=][^&#\s"'{}<>]*)"#,
];

/// A name, and after it a value: in JSON, XML, or YAML, there mostly in the next line.
const NAMED_VALUE: &str = concat!(
    r#"(?i)(?<head>\b(?:name|key)["']?\s*[:=]\s*["']?(?<name>[A-Z][\w.-]*)["']?[\s,]*(?:\n[^\n]{0,80}?)?"#,
    r#"["']?\b(?:val|value)["']?\s*[:=]\s*)(?<value>"[^"\n]*"?|'[^'\n]*'?|[^\s"',;)\]}]+)"#,
);

/// A name at the end of a line, and a value of one word in the next line.
const VALUE_BELOW: &str = concat!(
    r#"(?<head>\b(?<member>[A-Za-z][\w.-]*)["']?[ \t]*[:=]\n[ \t]*["']?)(?<mixed>[\w!@#$%^&*~+/=.-]{6,})"#,
    r#"(?<tail>["']?[ \t]*(?:\n|$))"#,
);

const PAIRS: [&str; 6] = [
    // --password value
    r#"(?<head>(?:^|[\s"'])--?(?<name>[A-Za-z][\w-]*)\s+)(?<value>"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"#,
    // name=value, name: value, "name": "value", also as JSON within JSON.
    concat!(
        r#"(?<head>(?<name>[A-Za-z][\w.-]*)(?<quote>\\*["'])?[ \t]*(?<sign>=>|:=|\\?=|:|%3[dDaA])[ \t]*)"#,
        r#"(?<value>\\+"(?:[^"\\\n]|\\+[^"\\\n])*(?:\\+")?|"(?:[^"\\\n]|\\.)*"?|\$?'[^'\n]*'?"#,
        r#"|\[[^\]\n]*\]?|\{*[^\s,;&"'\\{)\]}][^\s,;&"'\\)\]}]*)"#,
    ),
    // <password>value</password>
    r"(?<head><(?<name>[A-Za-z][\w.-]*)(?:\s[^<>]*)?>)(?<value>[^<>]+)(?<tail></)",
    // password 'value', identified by 'value'
    r#"(?i)(?<head>\b(?:pass(?:word|wd|phrase)|identified by)\s+(?:(?:is|was|to|set to|=)\s+)?)(?<value>'[^'\n]+'|"[^"\n]+")"#,
    // the first one of a MySQL server, and those of a .netrc
    r"(?<head>temporary password is generated for [^\s:]+:\s+|\bmachine\s+\S+\s+login\s+\S+\s+password\s+)(?<value>\S+)",
    // password value, in prose and in files of settings
    concat!(
        r"(?i)(?<head>\b(?:pass(?:word|wd|phrase)(?: is| was| (?:for|of) [^\n:]{1,60}:)?|requirepass|masterauth",
        r"|(?:api|secret|access)[_-]?key|client[_-]?secret|(?:access|auth)[_-]?token)[ \t]+)(?<random>[^\s<>,;:=()]{5,})",
    ),
];

/// Secrets in code and in JSON within a text, where only literals are secrets; `member` is the name.
const LITERALS: [&str; 7] = [
    // {"name": "name", "value": "value"}, also as JSON within JSON.
    concat!(
        r#"(?<head>\\*["'](?:name|key)\\*["']\s*:\s*\\*["'](?<member>[\w.-]+)\\*["']\s*,\s*"#,
        r#"\\*["'](?:val|value)\\*["']\s*:\s*\\*["'])(?<value>[^"'\\={}][^"'\\{}]*)"#,
    ),
    // name: 'value', name = "value", "name": "value", also with escaped quotes
    concat!(
        r#"(?<head>\b(?<member>[A-Za-z][\w.-]*)(?:\\?["']\]?)?\s*(?:=>|[:=])\s*)"#,
        r#"(?<literal>\\"(?:[^"\\\n]|\\[^"\n])+|"(?:[^"\\\n]|\\.)+|'(?:[^'\\\n]|\\.)+|`[^`\n]+)"#,
    ),
    // name=value, also as a flag, and in a line of a diff
    concat!(
        r#"(?<head>(?:^[+-]?|[\s?&;,"'(|:])-{0,2}(?<member>[A-Za-z_][\w.-]*)=)"#,
        r#"(?<value>[^\s"'`,;&(){}\[\]$<>=\\][^\s"'`,;&(){}\[\]<>\\]*)(?<tail>[\s,;&"'\\|]|$)"#,
    ),
    // name: value, in a note; the value has a digit
    r#"(?<head>\b(?<member>[A-Za-z][\w-]*(?:[ \t][Kk]ey)?)[ \t]*:[ \t]*)(?<mixed>[\w!@#%^*~+/-]{6,})(?<tail>[\s,;.'"\\]|$)"#,
    // --name value
    r#"(?<head>(?:^|[\s"'+])--(?<member>[A-Za-z][\w-]*)[ \t]+)(?<value>[^\s"'`$<>{}=()-][^\s"'`{}()]*)"#,
    // A line of its own with name = value; the value has a digit
    r"(?<head>^[ \t+-]*\$?(?<member>[A-Za-z][\w.-]*)[ \t]+=[ \t]+)(?<mixed>[\w!@#%^*~+/-]{6,})(?<tail>[ \t;\r]*\n?$)",
    // <name>value</name>
    r"(?<head><(?<member>[A-Za-z][\w.-]*)(?:\s[^<>]*)?>)(?<value>[^<>{}$]+)(?<tail></)",
];

struct Shapes {
    private_key: Option<Regex>,
    named_value: Option<Regex>,
    value_below: Option<Regex>,
    hint: Option<Regex>,
    tokens: Vec<Regex>,
    pairs: Vec<Regex>,
    literals: Vec<Regex>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    // The test `every_shape_compiles` shows that none is skipped here.
    let all = |shapes: &[&str]| shapes.iter().filter_map(|it| Regex::new(it).ok()).collect();
    Shapes {
        private_key: Regex::new(PRIVATE_KEY).ok(),
        named_value: Regex::new(NAMED_VALUE).ok(),
        value_below: Regex::new(VALUE_BELOW).ok(),
        hint: Regex::new(HINT).ok(),
        tokens: all(&TOKENS),
        pairs: all(&PAIRS),
        literals: all(&LITERALS),
    }
});

/// `text` with its secrets hidden, and how many there were.
pub(super) fn hide(text: Cow<'_, str>, reach: Reach) -> (Cow<'_, str>, u32) {
    let (text, keys) = hide_shape(text, SHAPES.private_key.iter());
    let (text, keys) = match key_body::hide_bodies(&text) {
        Some((shown, bodies)) => (Cow::Owned(shown), keys + bodies),
        None => (text, keys),
    };
    let (text, named) = match reach {
        Reach::Pairs if text.contains("val") => hide_shape(text, SHAPES.named_value.iter()),
        _ => (text, 0),
    };
    let (text, below) = match reach {
        Reach::Pairs if text.contains(":\n") || text.contains("=\n") => {
            hide_shape(text, SHAPES.value_below.iter())
        }
        _ => (text, 0),
    };
    let keys = keys + named + below;
    let hint = |line: &str| SHAPES.hint.as_ref().is_none_or(|hint| hint.is_match(line));
    if !hint(&text) {
        return (text, keys);
    }
    let (pairs, literals): (&[Regex], &[Regex]) = match reach {
        Reach::Tokens => (&[], &SHAPES.literals),
        // The others are pairs, too.
        Reach::Pairs => (&SHAPES.pairs, SHAPES.literals.get(3..).unwrap_or_default()),
    };
    let (mut out, mut hidden) = (String::new(), 0);
    for line in text.split_inclusive('\n') {
        if !hint(line) {
            out.push_str(line);
            continue;
        }
        let (shown, found) = hide_shape(
            line.into(),
            SHAPES.tokens.iter().chain(pairs).chain(literals),
        );
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
            if is_secret(&found) && !is_path_with_message(&text, &found) {
                let group = |name| found.name(name).map_or("", |group| group.as_str());
                out.push_str(&text[copied..whole.start()]);
                // The quotation mark stays.
                let quote = group("literal");
                let quote = quote
                    .trim_start_matches('\\')
                    .chars()
                    .next()
                    .map_or(0, |mark| {
                        quote.find(mark).unwrap_or_default() + mark.len_utf8()
                    });
                out.extend([
                    group("head"),
                    &group("literal")[..quote],
                    HIDDEN,
                    group("tail"),
                ]);
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

/// Whether the name is the end of a path, which a program tells what is wrong with: `rm: /pw: File exists`.
fn is_path_with_message(text: &str, found: &Captures<'_>) -> bool {
    let group = |name| found.name(name).map_or("", |group| group.as_str());
    let is_path = found
        .name("name")
        .is_some_and(|name| text[..name.start()].ends_with('/'));
    let value = group("value");
    let is_words = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_path && is_words && group("sign") == ":" && group("head").ends_with([' ', '\t'])
}

fn is_secret_of<'t>(group: &impl Fn(&'static str) -> Option<&'t str>) -> bool {
    group("member").is_some_and(name::is_secret_member)
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
    if let Some(word) = group("random") {
        let word = word.trim_end_matches(['.', '!', '\'', '"']);
        let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
        return has(u8::is_ascii_digit) || (has(u8::is_ascii_punctuation) && word != HIDDEN);
    }
    if let Some(literal) = group("literal") {
        let text = literal.trim_start_matches(['\\', '"', '\'', '`']);
        let is_fixed = !text.starts_with('=') && !text.contains("{{") && !text.contains("${");
        return is_fixed && !is_placeholder(text) && is_secret_of(&group);
    }
    if let Some(mixed) = group("mixed") {
        return mixed.bytes().any(|byte| byte.is_ascii_digit()) && is_secret_of(&group);
    }
    let value = group("value")
        .unwrap_or("-")
        .trim_matches(['"', '\'', '\\']);
    if is_placeholder(value) {
        return false;
    }
    if let Some(parameter) = group("parameter") {
        return name::is_secret_parameter(parameter);
    }
    if group("member").is_some() {
        return is_secret_of(&group);
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
        assert!(SHAPES.named_value.is_some() && SHAPES.value_below.is_some());
        assert_eq!(SHAPES.tokens.len(), TOKENS.len());
        assert_eq!(SHAPES.pairs.len(), PAIRS.len());
        assert_eq!(SHAPES.literals.len(), LITERALS.len());
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
        for row in include_str!("shape_cases.txt").lines().skip(1) {
            let row = row.replace('¶', "\n");
            let (text, expected) = row.split_once(" ⇒ ").unwrap();
            let (shown, hidden) = hide(text.into(), Reach::Pairs);
            assert_eq!(shown, expected);
            assert_eq!(hidden > 0, text != expected);
        }
    }

    #[test]
    fn secrets_are_hidden_in_code_and_in_json_within_texts() {
        let cases = r#"
const apiKey = 'a1 b2'; => const apiKey = '***';
login({password: "x9", user: 'bob'}) => login({password: "***", user: 'bob'})
{"client_secret": "x9", "n": 1} => {"client_secret": "***", "n": 1}
\"password\":\"x9\",\"n\":1 => \"password\":\"***\",\"n\":1
connect with password=hunter2 now => connect with password=*** now
AccountName=a;AccountKey=ab+c==;E=1 => AccountName=a;AccountKey=***;E=1
<password>x9</password> => <password>***</password>
={"name": "X-Api-Key", "value": "x9"} => ={"name": "X-Api-Key", "value": "***"}
curl -H 'X-Api-Key: x9abcd' h => curl -H 'X-Api-Key: ***' h
The API key: x9abcdef => The API key: ***
run --password=x9 --token x8 => run --password=*** --token ***
cfg["password"] = "x9"; => cfg["password"] = "***";
//npm.local/:_authToken=x9 => //npm.local/:_authToken=***
+API_KEY=x9 => +API_KEY=***
-API_KEY=x9 => -API_KEY=***
aws_secret_access_key = x9abcdef => aws_secret_access_key = ***
$password = x9abcdef; => $password = ***;
https://h/x?key=abc&n=1 => https://h/x?key=***&n=1
x: open http://h:1/#secret=0123456789abcdef to see => x: open http://h:1/#secret=*** to see
"#;
        for case in cases.trim().lines() {
            let (text, expected) = case.split_once(" => ").unwrap();
            assert_eq!(hide(text.into(), Reach::Tokens).0, expected);
        }
        // References and calls are no literals.
        for text in [
            "const token = next(); f(token=next())",
            r#"{"token": "={{ $json.token }}"}"#,
            r#"{"password": "{{ $json.p }}"}"#,
            "headers[`x`] = `${token}`; token: string",
            "{maxTokens: 4096789, tokenType: 'bearer'}",
        ] {
            assert_eq!(hide(text.into(), Reach::Tokens).0, text);
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
            "FATAL: password authentication failed for user \"bob\"",
            "the password must have 12 characters",
            "docker login -u bob registry",
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
}
