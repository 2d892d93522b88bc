//! Hides secrets in the data of a service before it reaches a client.
//!
//! Configurations, logs and results often hold passwords, and everyone who can read a conversation
//! reads the results of its tools. A value is shown as `***` if its name or its shape is that of a
//! secret. Rather one value too many than one too few: operators can turn it off (`--show-secrets`).

mod key_body;
mod name;
mod shape;

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::text::{clean, truncate};
use key_body::KeyLines;
use shape::{Reach, hide};

/// Replaces a secret.
pub const HIDDEN: &str = "***";
/// The fewest bytes of a line that is hidden as a part of a secret of several lines.
const MIN_SECRET_LINE: usize = 8;

/// True if a text has [`HIDDEN`] in the place of a value, as texts have that were redacted: it alone, after `=`, `:` or a
/// scheme of authentication, or before the host of a URL.
pub fn has_hidden_value(text: &str) -> bool {
    text.trim() == HIDDEN
        || text.match_indices(HIDDEN).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + HIDDEN.len()..]);
            let name = before.trim_end_matches([' ', '\t', '"', '\'']);
            let ends = |words: &[&str]| words.iter().any(|word| name.ends_with(word));
            let is_word = after.starts_with(|c: char| c.is_alphanumeric() || c == '*');
            ends(&["=", ":", "Bearer", "Basic"]) && !is_word
        })
}

/// Cleans and redacts texts, and counts the hidden secrets.
#[derive(Debug)]
pub struct Redactor {
    is_enabled: bool,
    hidden: AtomicU32,
    /// Values that are hidden wherever they appear, longest first.
    secrets: Vec<String>,
    reach: JsonReach,
}

/// The values of JSON that a redactor hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonReach {
    /// The texts of secrets. What is hidden can be put back where the JSON is written again.
    Texts,
    /// All of a secret: also numbers, what an object or a list holds, and the word after a flag.
    All,
}

impl Redactor {
    /// With `is_enabled` false, texts are only cleaned and JSON is left alone.
    pub fn new(is_enabled: bool) -> Self {
        Self {
            is_enabled,
            hidden: AtomicU32::new(0),
            secrets: Vec::new(),
            reach: JsonReach::Texts,
        }
    }

    /// A redactor of JSON that is only looked at: it hides all of a secret, also numbers and what an object holds.
    pub fn of_all() -> Self {
        Self {
            reach: JsonReach::All,
            ..Self::new(true)
        }
    }

    /// Returns the redactor, which also hides the values of these settings wherever they appear, if
    /// their names are those of secrets.
    #[must_use]
    pub fn with_secrets<'a>(mut self, named: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let named = named.into_iter().filter(|(name, value)| {
            name::is_secret_setting(name, value) && value.len() > 2 && !is_placeholder(value)
        });
        for (_, value) in named {
            let value = clean(value).into_owned();
            // A window of a log may show some lines of it only.
            if value.contains('\n') {
                let lines = value.lines().map(str::trim);
                let lines = lines.filter(|line| line.len() >= MIN_SECRET_LINE);
                self.secrets.extend(lines.map(str::to_owned));
            }
            self.secrets.push(value);
        }
        self.secrets
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self
    }

    /// The number of hidden values; `None` if there were none.
    pub fn hidden(&self) -> Option<u32> {
        Some(self.hidden.load(Relaxed)).filter(|&hidden| hidden > 0)
    }

    /// Redacts free text: log lines, error texts, the output of commands. Also removes
    /// [control and invisible characters](clean), which could split a secret.
    pub fn text(&self, text: &str) -> String {
        let mut text = clean(text).into_owned();
        if !self.is_enabled {
            return text;
        }
        let known = self.hide_known(&mut text);
        let (text, hidden) = hide(text.into(), Reach::Pairs);
        self.hidden.fetch_add(known + hidden, Relaxed);
        text.into_owned()
    }

    /// Hides the values that were given; returns their number.
    fn hide_known(&self, text: &mut String) -> u32 {
        let mut hidden = 0;
        for secret in &self.secrets {
            let found = text.matches(secret.as_str()).count();
            *text = text.replace(secret.as_str(), HIDDEN);
            hidden += u32::try_from(found).unwrap_or(u32::MAX);
        }
        hidden
    }

    fn hide_known_in_json(&self, value: &mut Value) -> u32 {
        match value {
            Value::String(text) => self.hide_known(text),
            Value::Array(all) => all.iter_mut().map(|one| self.hide_known_in_json(one)).sum(),
            Value::Object(all) => {
                let all = all.values_mut();
                all.map(|one| self.hide_known_in_json(one)).sum()
            }
            _ => 0,
        }
    }

    /// Redacts `KEY=value`, as in an environment.
    pub fn assignment(&self, assignment: &str) -> String {
        match assignment.split_once('=') {
            Some((name, value)) => format!("{}={}", clean(name), self.named(name, value)),
            None => self.text(assignment),
        }
    }

    /// Redacts the value of an environment variable or a label.
    pub fn named(&self, name: &str, value: &str) -> String {
        if self.is_enabled && name::is_secret_setting(name, value) && !is_placeholder(value) {
            return self.hide();
        }
        self.text(value)
    }

    /// Redacts a command line; returns its words joined by blanks.
    pub fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> String {
        let mut shown: Vec<String> = Vec::new();
        let mut secret_follows = false;
        for word in words {
            let is_flag = word.starts_with('-');
            let secret = self.is_enabled && secret_follows && !is_flag && !is_placeholder(word);
            shown.push(if secret { self.hide() } else { self.text(word) });
            secret_follows = is_flag && !word.contains('=') && name::is_secret(word);
        }
        let line = shown.join(" ");
        // Some shapes span several words.
        self.text(&line)
    }

    /// Redacts JSON of any depth, in place: members by name, texts by the shape of tokens. Texts may be
    /// code, so pairs in them (`token = next()`) are not redacted. Returns the number of hidden
    /// values.
    pub fn json(&self, value: &mut Value) -> u32 {
        if !self.is_enabled {
            return 0;
        }
        let hidden = self.hide_known_in_json(value) + hide_json(value, self.reach);
        self.hidden.fetch_add(hidden, Relaxed);
        hidden
    }

    /// Redacts JSON text, which stays the same byte for byte if it holds no secret. JSON that cannot be read (half a
    /// character, too deep) becomes a text.
    pub fn raw_json(&self, raw: Box<RawValue>) -> Box<RawValue> {
        if !self.is_enabled {
            return raw;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(raw.get()) else {
            return to_raw_value(&self.text(raw.get())).unwrap_or_default();
        };
        match self.json(&mut value) {
            0 => raw,
            _ => to_raw_value(&value).unwrap_or_default(),
        }
    }

    fn hide(&self) -> String {
        self.hidden.fetch_add(1, Relaxed);
        HIDDEN.to_owned()
    }
}

/// A copy counts from zero.
impl Clone for Redactor {
    fn clone(&self) -> Self {
        Self {
            secrets: self.secrets.clone(),
            reach: self.reach,
            ..Self::new(self.is_enabled)
        }
    }
}

/// Redacts a text that arrives line by line, such as a log that is followed or searched. A line of a private key, and
/// a value whose name is in the line before, can be known by the lines before only.
#[derive(Debug)]
pub struct LineRedactor {
    redactor: Redactor,
    keys: KeyLines,
    previous: String,
    needs_previous: bool,
}

impl LineRedactor {
    /// Redacts lines as `redactor` redacts texts.
    pub fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            keys: KeyLines::default(),
            previous: String::new(),
            needs_previous: false,
        }
    }

    /// The next line as it is shown; `None` for a line of a private key.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if self.redactor.is_enabled && self.keys.is_next(&clean(line)) {
            return None;
        }
        let shown = self.redactor.text(line);
        // `- name: DB_PASSWORD` or `PASSWORD:`, with the value in the next line.
        let is_below = line.contains("val") || self.previous.ends_with([':', '=']);
        let both = is_below.then(|| {
            let both = format!("{}\n{line}", self.previous);
            self.redactor.clone().text(&both)
        });
        line.clone_into(&mut self.previous);
        let own = both.and_then(|both| Some(both.split_once('\n')?.1.to_owned()));
        self.needs_previous = own.as_ref().is_some_and(|own| *own != shown);
        Some(own.unwrap_or(shown))
    }

    /// True if the last line hides what it would show without the line before.
    pub fn needs_previous(&self) -> bool {
        self.needs_previous
    }
}

fn hide_json(value: &mut Value, reach: JsonReach) -> u32 {
    match value {
        // A text without secrets keeps its invisible characters, too.
        Value::String(text) => {
            let shown = match hide(clean(text), Reach::Tokens) {
                (_, 0) => None,
                (shown, _) => Some(shown.into_owned()),
            };
            let shown = hide_json_in(shown.as_deref().unwrap_or(text), reach).or(shown);
            let hidden = u32::from(shown.is_some());
            if let Some(shown) = shown {
                *text = shown;
            }
            hidden
        }
        Value::Array(all) => {
            // `["--password", "…"]`, the form of command lines.
            let mut is_flagged = false;
            let hide_item = |one: &mut Value| {
                let word = one.as_str().unwrap_or_default();
                let secret = is_flagged && reach == JsonReach::All && !is_flag(word);
                let ends_name = word.starts_with('-') && !word.contains('=');
                is_flagged = !secret && ends_name && name::is_secret(word);
                match secret {
                    true => hide_secret(one, reach),
                    false => hide_json(one, reach),
                }
            };
            all.iter_mut().map(hide_item).sum()
        }
        Value::Object(all) => {
            // `{"name": "Authorization", "value": "…"}`, the form of headers and fields.
            let named = ["name", "key"]
                .iter()
                .filter_map(|key| all.get(*key).and_then(Value::as_str))
                .any(name::is_secret_member);
            let hide_member = |(key, value): (&String, &mut Value)| {
                let secret = name::is_secret_member(key) || (named && is_value(key));
                match value {
                    // `"set-cookie": ["…"]`
                    Value::Array(all) if secret => {
                        all.iter_mut().map(|one| hide_secret(one, reach)).sum()
                    }
                    value if secret => hide_secret(value, reach),
                    value => hide_json(value, reach),
                }
            };
            all.iter_mut().map(hide_member).sum()
        }
        _ => 0,
    }
}

/// True for the name of a flag, with or without a value: a password may begin with `-`, too.
fn is_flag(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let name = name.strip_prefix("--").or_else(|| name.strip_prefix('-'));
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .chars()
                .all(|c| c.is_ascii_alphabetic() || "-_".contains(c))
    })
}

/// True for the member that holds what the `name` or `key` beside it names, also for `stringValue`, as n8n has it.
fn is_value(member: &str) -> bool {
    matches!(member, "value" | "val") || member.ends_with("Value")
}

/// True if a member of JSON with this name can be a secret, by this name or by the `name` beside it.
pub fn can_be_secret(member: &str) -> bool {
    name::is_secret_member(member) || is_value(member)
}

/// Hides the value of a secret, also as the `value` of an object.
fn hide_secret(value: &mut Value, reach: JsonReach) -> u32 {
    if is_literal(value) || reach == JsonReach::All && value.is_number() {
        *value = HIDDEN.into();
        return 1;
    }
    match value {
        Value::Array(all) if reach == JsonReach::All => {
            all.iter_mut().map(|one| hide_secret(one, reach)).sum()
        }
        Value::Object(all) if reach == JsonReach::All => {
            all.values_mut().map(|one| hide_secret(one, reach)).sum()
        }
        value => {
            let own = value.get_mut("value").filter(|own| is_literal(own));
            let own = own.map_or(0, |own| hide_secret(own, reach));
            own + hide_json(value, reach)
        }
    }
}

/// JSON within a text, or within an expression, without its secrets; `None` if it has none.
fn hide_json_in(text: &str, reach: JsonReach) -> Option<String> {
    let start = text.len() - text.trim_start_matches(['=', ' ', '\n']).len();
    let (before, json) = text.split_at(start);
    if !json.starts_with(['{', '[']) || json.starts_with("{{") {
        return None;
    }
    let mut value: Value = serde_json::from_str(json).ok()?;
    (hide_json(&mut value, reach) > 0).then(|| format!("{before}{value}"))
}

/// Returns true if a text could be a secret: expressions (`={{ … }}`) only refer to one, and JSON (`={ … }`) holds one.
/// n8n takes other text behind `=` as it is.
fn is_literal(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let behind = text.strip_prefix('=').map(str::trim_start);
    let refers = behind
        .is_some_and(|text| text.contains("{{") || text.starts_with(['{', '[']) || text.is_empty());
    !refers && !is_placeholder(text)
}

/// Returns true for values that are useful to see and cannot be secrets.
fn is_placeholder(value: &str) -> bool {
    matches!(
        &*value.to_ascii_lowercase(),
        "" | HIDDEN | "true" | "false" | "null" | "nil" | "none" | "undefined"
    )
}

/// Redacts a text without counting, also if redaction is turned off: error messages of others.
pub fn redacted(text: &str) -> Cow<'_, str> {
    hide(clean(text), Reach::Pairs).0
}

/// The most characters of [`json_cause`].
const MAX_JSON_CAUSE: usize = 200;

/// The reason against JSON, as a parser of it says, without the value that it quotes.
pub fn json_cause(error: &impl Display) -> String {
    let text = error.to_string();
    let (before, rest) = text.split_once('"').unwrap_or((&text, ""));
    let (_, after) = rest.rsplit_once('"').unwrap_or_default();
    truncate(&redacted(&format!("{before}{after}")), MAX_JSON_CAUSE)
}

/// Redacts a text that may hold code: only tokens, not pairs (`token = next()`). A text without
/// secrets stays as it is.
pub fn redacted_code(text: &str) -> Cow<'_, str> {
    match hide(clean(text), Reach::Tokens) {
        (_, 0) => Cow::Borrowed(text),
        (shown, _) => shown,
    }
}

/// Redacts a part of a text as [`redacted_code`] does. A secret of which the part has a piece is known by what is before
/// and after the part.
pub fn redacted_part<'t>(before: &str, part: &'t str, after: &str) -> Cow<'t, str> {
    let [before, cleaned, after] = [before, part, after].map(clean);
    let whole = format!("{before}{cleaned}{after}");
    let (mut at, end) = (before.len(), before.len() + cleaned.len());
    let mut out = String::new();
    let shown = hide((&*whole).into(), Reach::Tokens).0;
    // Stars of the text itself are no secret.
    let is_secret = |hidden: &Range<usize>| {
        let text = whole.get(hidden.clone()).unwrap_or_default();
        text.bytes().any(|byte| byte != b'*')
    };
    for hidden in hidden_ranges(&whole, &shown).filter(is_secret) {
        let hidden = hidden.start.max(at)..hidden.end.min(end);
        if !hidden.is_empty() {
            out.extend([&whole[at..hidden.start], HIDDEN]);
            at = hidden.end;
        }
    }
    out.push_str(&whole[at..end]);
    match out == cleaned {
        true => part.into(),
        false => out.into(),
    }
}

/// Finds the parts of `text` for which [`HIDDEN`] stands in `shown`. Where several parts are possible, a range has them all.
fn hidden_ranges(text: &str, shown: &str) -> impl Iterator<Item = Range<usize>> {
    let kept: Vec<&str> = shown.split(HIDDEN).collect();
    let (mut start, mut end) = (0, text.len());
    let starts = kept.iter().map(|kept| {
        start += text[start..].find(kept).map_or(0, |at| at + kept.len());
        start
    });
    let starts: Vec<usize> = starts.collect();
    let ends = kept.iter().skip(1).rev().map(|kept| {
        end = text[..end].rfind(kept).unwrap_or(end);
        end
    });
    let ends: Vec<usize> = ends.collect();
    let ranges = starts.into_iter().zip(ends.into_iter().rev());
    ranges.map(|(start, end)| start..end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_is_known_in_each_part_of_a_text() {
        let token = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJKLMNOP");
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END PRIVATE KEY-----";
        let hash = format!("a {token} b, a {token} b\n");
        for (text, secret) in [
            ("é\npassword = \"Sup3rS3cret\"\npin\n", "Sup3rS3cret"),
            (
                "x\u{1b}[1m\r\nurl=https://u:Sup3rS3cret@h/x\r\n",
                "Sup3rS3cret",
            ),
            (&*format!("x\n{key}\ny"), key),
            (&*hash, &*token),
        ] {
            let borders = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
            let borders: Vec<usize> = borders.step_by(3).collect();
            for (at, start) in borders.iter().enumerate() {
                for end in &borders[at..] {
                    let (before, after) = (&text[..*start], &text[*end..]);
                    let part = &text[*start..*end];
                    let shown = redacted_part(before, part, after);
                    let pieces = secret.as_bytes().windows(4);
                    let pieces = pieces.map(|piece| std::str::from_utf8(piece).unwrap());
                    let pieces = pieces.filter(|piece| {
                        text.matches(piece).count() == text.matches(secret).count()
                    });
                    for piece in pieces {
                        assert!(!shown.contains(piece), "{part}: {shown}");
                    }
                }
            }
            assert_eq!(redacted_part("", text, ""), redacted_code(text));
        }
        let open = "a\u{200b} ***\nb\r\n";
        assert!(
            matches!(redacted_part("token=x9 ", open, "TOKEN=x8"), Cow::Borrowed(same) if same == open)
        );
        let open = "/******/ x\n";
        let shown = redacted_part("", open, "token = \"s3cret99\"\n");
        assert!(matches!(shown, Cow::Borrowed(same) if same == open));
    }

    #[test]
    fn hidden_values_are_told_from_other_stars() {
        for (text, expected) in [
            ("***", true),
            ("A=1\nAPI_KEY=***\nPORT=80", true),
            ("password: \"***\"", true),
            ("Authorization: Bearer ***", true),
            ("{\"token\":\"***\"}", true),
            ("0 5 * * *", false),
            ("# *** generated ***", false),
            ("a ***bold*** word: ***bold***", false),
            ("****", false),
            ("key: ****", false),
        ] {
            assert_eq!(has_hidden_value(text), expected, "{text}");
        }
    }

    #[test]
    fn given_values_are_hidden_and_counted_wherever_they_appear() {
        let given = [
            ("PASSWORD", "correct horse"),
            ("A_TOKEN", "correct"),
            ("PIN_SECRET", "xy"),
            ("OTHER_SECRET", "none"),
            ("HOME", "/srv/app"),
        ];
        let redactor = Redactor::new(true).with_secrets(given);
        // The longest first, of which another one is a part; neither short nor empty ones.
        let text = redactor.text("a correct horse, a correct xy none in /srv/app");
        assert_eq!(text, "a ***, a *** xy none in /srv/app");
        assert_eq!(redactor.hidden(), Some(2));
        assert_eq!(redactor.clone().text("correct"), "***");
        let open = Redactor::new(false).with_secrets(given);
        assert_eq!(open.text("correct"), "correct");
        let mut value =
            json!({"rows": [{"a": "correct horse"}, "a correct horse", 7], "token": "x9"});
        assert_eq!(redactor.json(&mut value), 3);
        let hidden = json!({"rows": [{"a": "***"}, "a ***", 7], "token": "***"});
        assert_eq!(value, hidden);
        assert_eq!(redactor.hidden(), Some(5));
        let lines =
            Redactor::new(true).with_secrets([("PASSWORD", "first line\n  second line\n}")]);
        assert_eq!(lines.text("at 1 second line"), "at 1 ***");
    }

    #[test]
    fn json_in_a_text_is_redacted() {
        let redactor = Redactor::new(true);
        for (text, expected) in [
            (r#"{"token":"x9"}"#, r#"{"token":"***"}"#),
            (r#"= [{"password":"x9"}]"#, r#"= [{"password":"***"}]"#),
            (
                r#"[{"name":"token","stringValue":"x9"}]"#,
                r#"[{"name":"token","stringValue":"***"}]"#,
            ),
        ] {
            let mut value = json!({ "text": text });
            redactor.json(&mut value);
            assert_eq!(value["text"], expected);
        }
    }

    #[test]
    fn environment_is_redacted_by_name_and_by_shape() {
        let cases = [
            ("PATH=/usr/bin:/bin", "PATH=/usr/bin:/bin"),
            ("PWD=/srv", "PWD=/srv"),
            ("POSTGRES_PASSWORD=hunter2", "POSTGRES_PASSWORD=***"),
            ("POSTGRES_PASSWORD=", "POSTGRES_PASSWORD="),
            ("PG_PASSWORD_FILE=/run/pg", "PG_PASSWORD_FILE=/run/pg"),
            ("apiKey=abc", "apiKey=***"),
            ("KEY=abc", "KEY=***"),
            (
                "DB_URL=postgres://u:pw@db/x",
                "DB_URL=postgres://u:***@db/x",
            ),
            ("OPTS=-Xmx1g -Dpassword=pw", "OPTS=-Xmx1g -Dpassword=***"),
            ("NOVALUE", "NOVALUE"),
        ];
        for (text, expected) in cases {
            assert_eq!(Redactor::new(true).assignment(text), expected);
        }
    }

    #[test]
    fn command_lines_are_redacted() {
        let cases: [(&[&str], &str); 8] = [
            (&["sh", "-c", "echo hi"], "sh -c echo hi"),
            (&["x", "--password", "a b", "-v"], "x --password *** -v"),
            (&["x", "--token=abc"], "x --token=***"),
            // A flag, a value of no use to anybody, and the word after a complete flag are shown.
            (&["x", "--password", "-v", "y"], "x --password -v y"),
            (&["x", "--password", "none"], "x --password none"),
            (&["x", "--token=abc", "a b"], "x --token=*** a b"),
            (&["x", "token", "a b"], "x token a b"),
            (
                &["sh", "-c", "run --api-key abc --port 80"],
                "sh -c run --api-key *** --port 80",
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(Redactor::new(true).command(words.iter().copied()), expected);
        }
    }

    #[test]
    fn hidden_values_are_counted_once() {
        let redactor = Redactor::new(true);
        redactor.assignment("A_TOKEN=x");
        redactor.command(["x", "--password", "y", "--secret=z"]);
        assert_eq!(redactor.hidden(), Some(3));
        assert_eq!(redactor.clone().hidden(), None);
    }

    /// A whole key, and two lines of one.
    #[test]
    fn keys_and_parts_of_keys_are_counted() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----";
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let redactor = Redactor::new(true);
        let shown = redactor.text(&format!("{key}\n{line}\n{line}"));
        assert_eq!(shown, "***\n***\n***");
        assert_eq!(redactor.hidden(), Some(3));
        assert_eq!(redactor.text("the password is ***"), "the password is ***");
        assert_eq!(redactor.hidden(), Some(3));
    }

    #[test]
    fn value_is_known_by_the_name_in_the_line_before() {
        let mut lines = LineRedactor::new(Redactor::new(true));
        for (line, shown, needs_previous) in [
            ("- name: DB_PASSWORD", "- name: DB_PASSWORD", false),
            ("  value: x9", "  value: ***", true),
            ("  value: open", "  value: open", false),
            ("password=x9", "password=***", false),
        ] {
            assert_eq!(lines.line(line).as_deref(), Some(shown));
            assert_eq!(lines.needs_previous(), needs_previous, "{line}");
        }
    }

    #[test]
    fn disabled_redactor_only_cleans() {
        let redactor = Redactor::new(false);
        assert_eq!(redactor.assignment("A_TOKEN=x\u{1b}[0m"), "A_TOKEN=x");
        assert_eq!(redactor.command(["--password", "a b"]), "--password a b");
        let mut shown = json!({"password": "p"});
        assert_eq!(redactor.json(&mut shown), 0);
        assert_eq!(shown, json!({"password": "p"}));
        assert_eq!(redactor.hidden(), None);
    }

    #[test]
    fn invisible_characters_do_not_split_a_secret() {
        let split = "ghp_0123456789\u{200b}abcdefghijABCDEF";
        assert_eq!(redacted(split), "***");
        let mut value = json!({"a": split, "b": "zero\u{200b}width"});
        assert_eq!(Redactor::new(true).json(&mut value), 1);
        assert_eq!(value, json!({"a": "***", "b": "zero\u{200b}width"}));
        assert_eq!(redacted_code(split), "***");
        let code = "token = next()\u{200b}";
        assert_eq!(redacted_code(code), code);
    }

    #[test]
    fn json_is_redacted_by_name_and_by_shape() {
        let mut value = json!({
            "headers": {"authorization": "Bearer abcdef123456", "x-api-key": "k", "accept": "*/*"},
            "parameters": [{"name": "X-Api-Key", "value": "literal"}, {"name": "q", "value": "kept"}],
            "expression": {"name": "Authorization", "value": "={{ $json.token }}"},
            "body": "={\"name\": \"X-Api-Key\", \"value\": \"k\"}", "open": "{\"a\": 1}",
            "passphrase": "=pasted", "set-cookie": ["a=b; HttpOnly", "={{ $json.cookie }}", ""],
            "url": "https://user:pw@host/x", "query": "https://h/?a=1&access_token=abc&b=2",
            "code": "const token = $json.token; const apiKey = read();",
            "nodeCredentialType": "slackApi", "authentication": "headerAuth", "nextPageToken": "p2",
            "password": "", "tokens": 7, "sortKey": "name", "key": "users.email",
            "dbPassword": {"value": "nested", "type": "string"},
        });
        let expected = json!({
            "headers": {"authorization": "***", "x-api-key": "***", "accept": "*/*"},
            "parameters": [{"name": "X-Api-Key", "value": "***"}, {"name": "q", "value": "kept"}],
            "expression": {"name": "Authorization", "value": "={{ $json.token }}"},
            "body": "={\"name\": \"X-Api-Key\", \"value\": \"***\"}", "open": "{\"a\": 1}",
            "passphrase": "***", "set-cookie": ["***", "={{ $json.cookie }}", ""],
            "url": "https://user:***@host/x", "query": "https://h/?a=1&access_token=***&b=2",
            "code": "const token = $json.token; const apiKey = read();",
            "nodeCredentialType": "slackApi", "authentication": "headerAuth", "nextPageToken": "p2",
            "password": "", "tokens": 7, "sortKey": "name", "key": "users.email",
            "dbPassword": {"value": "***", "type": "string"},
        });
        assert_eq!(Redactor::new(true).json(&mut value), 9);
        assert_eq!(value, expected);
        // Redaction is idempotent.
        assert_eq!(Redactor::new(true).json(&mut value), 0);
    }

    #[test]
    fn json_that_is_only_looked_at_hides_all_of_a_secret() {
        let redactor = Redactor::of_all();
        for (value, hidden) in [
            (
                json!({"otp": 123456, "n": 7}),
                json!({"otp": "***", "n": 7}),
            ),
            (
                json!({"token": {"a": "x", "b": [1, true]}}),
                json!({"token": {"a": "***", "b": ["***", true]}}),
            ),
            (
                json!({"env": [{"name": "DB_PASSWORD", "value": 4711}]}),
                json!({"env": [{"name": "DB_PASSWORD", "value": "***"}]}),
            ),
            (
                json!(["run", "--password", "x", "--name", "y", "--token", "-v"]),
                json!(["run", "--password", "***", "--name", "y", "--token", "-v"]),
            ),
            (
                json!(["--token", "-Xk9", "--token", "--tail=5"]),
                json!(["--token", "***", "--token", "--tail=5"]),
            ),
            (
                json!({"body": "{\"pin\":4711}"}),
                json!({"body": "{\"pin\":\"***\"}"}),
            ),
        ] {
            let (mut all, mut texts) = (value.clone(), value.clone());
            redactor.json(&mut all);
            assert_eq!(all, hidden);
            // Others can be written back.
            assert_eq!(Redactor::new(true).json(&mut texts), 0, "{texts}");
        }
    }

    #[test]
    fn json_without_secrets_stays_byte_for_byte() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let plain = "{\"a\": 1.50, \"b\": \"\\u00e4\\u200b\"}";
        let redactor = Redactor::new(true);
        assert_eq!(redactor.raw_json(raw(plain)).get(), plain);
        let secret = redactor.raw_json(raw(r#"{"apiKey":"x"}"#));
        assert_eq!(secret.get(), r#"{"apiKey":"***"}"#);
    }
}
