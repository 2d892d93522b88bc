//! Hides the texts of a request in the text of its failure: a backend quotes what it refuses, and that may be private.
//!
//! A text may come back whole, cut, in other letters, escaped, or word by word. So each word of a failure that is a word of
//! the request is hidden, but for the words of its event, which has them anyway, and those of any error. A backend that
//! encodes a text otherwise, such as in base64, can still write it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use mcp_core::jsonrpc::{members, string};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use upstream::redact::HIDDEN;

/// Of requests with more bytes the text of the failure is hidden as a whole.
const MAX_BYTES: usize = 64 * 1024;

/// Members of `_meta` whose names begin with this are about the client and its request, and not of it.
const RESERVED: &str = "io.modelcontextprotocol/";

/// Shorter words are looked for as a whole, and not as a part of others, or of which others are a part.
const MIN_CUT_CHARS: usize = 3;
const MIN_PART_CHARS: usize = 4;
const MAX_PART_CHARS: usize = 64;

/// Numbers with fewer digits, such as of seconds, are no texts.
const MIN_DIGITS: usize = 4;

/// From here on are the scripts that have no blanks between words: each letter counts as a word.
const FIRST_WITHOUT_BLANKS: char = '\u{e00}';

/// Words of errors, which tell nothing about a request.
const COMMON: &str = "\
    about access allowed already and answer any are argument arguments array as at backend be because boolean but \
    by call called can cannot character column connect connection could denied did does empty error exist exists \
    expected failed failure false field file for found from had has have id if in input integer internal invalid \
    is it its json known length line long many message missing more must name no not null number object of on only \
    or parameter parse permission property refused request required response result running server service should \
    status string such text than that the there this timeout to too tool true type unexpected unknown url \
    validation value was with without you your";

/// The texts that a client has sent with a request: its parameters, and the answers of its user to questions.
#[derive(Clone, Debug, Default)]
pub struct OwnTexts {
    texts: Vec<String>,
    bytes: usize,
}

impl OwnTexts {
    /// The texts in the parameters of a request.
    pub fn of_params(params: &str) -> Self {
        let mut own = Self::default();
        own.add_params(params);
        own
    }

    /// Adds the texts in the parameters of a request, which are JSON.
    pub fn add_params(&mut self, params: &str) {
        for (name, json) in members(params).into_iter().flatten() {
            match name == "_meta" {
                false => self.add(json),
                true => self.add_meta(json),
            }
        }
    }

    fn add_meta(&mut self, meta: &str) {
        let all = members(meta).into_iter().flatten();
        for (_, json) in all.filter(|(name, _)| !name.starts_with(RESERVED)) {
            self.add(json);
        }
    }

    /// Adds the texts in JSON: its strings, the names of its members, and its long numbers. All of those that have one
    /// name, too, of which most readers see one only.
    pub fn add(&mut self, json: &str) {
        self.bytes += json.len();
        if self.bytes > MAX_BYTES {
            return;
        }
        let mut rest = json;
        while let Some(start) = rest.find('"') {
            self.add_numbers(&rest[..start]);
            let end = end_of_string(&rest[start..]);
            let (text, after) = rest[start..].split_at(end);
            let text = string(text).unwrap_or_else(|| text.trim_matches('"').into());
            // The failure is searched without escapes.
            if let Cow::Owned(plain) = unescaped(&text) {
                self.texts.push(plain);
            }
            self.texts.push(text.into_owned());
            rest = after;
        }
        self.add_numbers(rest);
    }

    /// Adds the texts of `other`.
    pub fn add_all(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.texts.extend_from_slice(&other.texts);
    }

    fn add_numbers(&mut self, json: &str) {
        let numbers = json.split(|char: char| !char.is_ascii_digit() && char != '.');
        let long = numbers.filter(|number| number.len() >= MIN_DIGITS);
        self.texts.extend(long.map(str::to_owned));
    }

    /// Returns `text`, which is without escapes, with `***` in place of the words of the request. `known` are texts that
    /// the event has.
    pub(super) fn hide_in(&self, text: &str, known: &[&str]) -> String {
        if self.bytes > MAX_BYTES {
            return HIDDEN.to_owned();
        }
        let known: HashSet<String> = known.iter().flat_map(|text| lower_words(text)).collect();
        OwnWords::new(&self.texts, &known).hide_in(text)
    }
}

/// The number of bytes of the JSON string at the beginning of `json`.
fn end_of_string(json: &str) -> usize {
    let mut is_escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(json.len(), |end| end + 2)
}

/// The words of a request in small letters, and its texts that are more than one word.
struct OwnWords<'a> {
    texts: Vec<&'a str>,
    words: HashSet<String>,
    /// All words, to look for parts of them.
    joined: String,
}

impl<'a> OwnWords<'a> {
    fn new(texts: &'a [String], known: &HashSet<String>) -> Self {
        let is_own = |word: &String| !known.contains(word) && !is_common(word);
        let words = texts.iter().flat_map(|text| lower_words(text));
        let is_long = |word: &String| word.len() > 1;
        let words: HashSet<String> = words.filter(is_long).filter(is_own).collect();
        let has_own = |text: &str| {
            let mut words = lower_words(text).peekable();
            words.peek().is_none() || words.any(|word| is_own(&word))
        };
        let texts = texts.iter().map(|text| text.trim());
        let several = |text: &&str| {
            let is_word = text.chars().all(char::is_alphanumeric);
            !is_word && text.chars().count() >= MIN_CUT_CHARS && has_own(text)
        };
        let mut texts: Vec<&str> = texts.filter(several).collect();
        texts.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        let joined: Vec<&str> = words.iter().map(String::as_str).collect();
        Self {
            joined: joined.join("\n"),
            texts,
            words,
        }
    }

    fn hide_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for own in &self.texts {
            if text.contains(own) {
                text = text.replace(own, HIDDEN);
            }
            let is_escaped = |char: char| char == '"' || char == '\\' || char.is_control();
            if own.contains(is_escaped) {
                let escaped = Value::from(*own).to_string();
                text = text.replace(&escaped[1..escaped.len() - 1], HIDDEN);
            }
        }
        let mut shown = String::with_capacity(text.len());
        let (mut end, mut was_own) = (0, false);
        for word in words(&text) {
            let (between, found) = (&text[end..word.start], &text[word.clone()]);
            // The letter of an escape, such as that of a line break.
            let is_escape = between.ends_with('\\') && found.is_char_boundary(1);
            let is_own = self.has(found) || (is_escape && self.has(&found[1..]));
            match (was_own, is_own) {
                // The characters between two hidden words may be of the same text.
                (true, true) => {}
                (_, true) => shown.extend([between, HIDDEN]),
                (_, false) => shown.extend([between, found]),
            }
            (end, was_own) = (word.end, is_own);
        }
        shown + &text[end..]
    }

    /// Returns true for a word of the request, for a part of one, and for a word with one in it.
    fn has(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        if is_common(&word) {
            return false;
        }
        let places: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
        let is_cut = places.len() >= MIN_CUT_CHARS && self.joined.contains(&word);
        let has_part = |start: usize| {
            let ends = places.iter().copied().skip(start + MIN_PART_CHARS);
            let mut ends = ends.chain([word.len()]).take(MAX_PART_CHARS);
            let is_long = places.len() - start >= MIN_PART_CHARS;
            is_long && ends.any(|end| self.words.contains(&word[places[start]..end]))
        };
        is_cut || self.words.contains(&word) || (0..places.len()).any(has_part)
    }
}

fn is_common(word: &str) -> bool {
    COMMON.split(' ').any(|common| common == word)
}

fn lower_words(text: &str) -> impl Iterator<Item = String> {
    words(text).map(|word| text[word].to_lowercase())
}

/// The places of the words of a text.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(char::is_alphanumeric)?;
        let is_alone = |char: char| char >= FIRST_WITHOUT_BLANKS;
        let mut chars = text[start..].char_indices();
        let (_, first) = chars.next()?;
        let end = match is_alone(first) {
            true => chars.next(),
            false => chars.find(|(_, char)| !char.is_alphanumeric() || is_alone(*char)),
        };
        rest = end.map_or(text.len(), |(at, _)| start + at);
        Some(start..rest)
    })
}

/// Returns a text in which characters are not written as `\u00e9` or `%C3%A9`.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .unwrap_or(Cow::Borrowed(text));
    if !text.contains("\\u") {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(start) = rest.find("\\u") {
        let escape = |at: usize| {
            let digits = rest[at..].strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let units: Vec<u16> = (0..).map_while(|n| escape(start + 6 * n)).collect();
        let end = start + (6 * units.len()).max(2);
        shown.push_str(&rest[..start]);
        match units.is_empty() {
            true => shown.push_str("\\u"),
            false => shown.push_str(&String::from_utf16_lossy(&units)),
        }
        rest = &rest[end..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hidden(params: &Value, text: &str) -> String {
        let own = OwnTexts::of_params(&params.to_string());
        let arguments = r#"{"name":{"value":"web-7"},"user":"string(12)"}"#;
        own.hide_in(&unescaped(text), &["b__greet", arguments])
    }

    #[test]
    fn texts_of_a_request_are_hidden_in_every_form() {
        let params = json!({"name": "b__greet", "arguments": {
            "name": "web-7",
            "s3cret": 1,
            "user": "Ada Lovelace",
            "mail": "ada.l@example.org",
            "nested": [{"deep key": "Zürich\nWest \"quoted\""}],
            "symbols": "p@$$!#",
            "city": "東京タワー",
            "pin": 471_199,
            "path": "a%2Fhedge%68og",
            "text": r#"{"inner":"swordfish"}"#,
        }, "_meta": {"custom": "hunter2", "io.modelcontextprotocol/clientInfo": {"name": "browser"}}});
        for (text, expected) in [
            ("unknown argument `s3cret`", "unknown argument `***`"),
            ("no user Ada Lovelace here", "no user *** here"),
            ("no user ADA LOVELACE", "no user ***"),
            ("no user ada%20lovelace", "no user ***"),
            ("no user AdaLovelace!", "no user ***!"),
            ("no user Ada Lovel…", "no user ***…"),
            ("<ada.l@example.org> bounced", "<***> bounced"),
            ("at 'Z\u{fc}rich' and West", "at '***' and ***"),
            (r"at 'Z\u00fcrich\nWest' \u", r"at '***' \u"),
            (
                r#"{"deep key":"Zürich\nWest \"quoted\""}"#,
                r#"{"***":"***"}"#,
            ),
            ("password p@$$!# is wrong", "password *** is wrong"),
            ("password p@$$!# of 471199", "password *** of ***"),
            ("在東京找不到", "在***找不到"),
            (r"\u6771\u4eac failed", "*** failed"),
            ("swordfish, hunter2", "***"),
            ("no hedgehog, no hedge%68og", "no ***, no ***"),
            // Of the event, of the client, and of any error.
            (
                "b__greet: web-7 not found by the browser",
                "b__greet: web-7 not found by the browser",
            ),
            ("did not answer within 2 s", "did not answer within 2 s"),
        ] {
            assert_eq!(hidden(&params, text), expected, "{text}");
        }
    }

    #[test]
    fn members_of_one_name_and_broken_strings_are_read() {
        let own = OwnTexts::of_params(r#"{"a":{"b":"first\\","b":"second","c":"\ud800third"}}"#);
        assert_eq!(own.hide_in("first second third fourth", &[]), "*** fourth");
        let mut own = OwnTexts::default();
        own.add(&json!("x".repeat(MAX_BYTES)).to_string());
        assert_eq!(own.hide_in("anything", &[]), HIDDEN);
        assert_eq!(OwnTexts::default().hide_in("anything", &[]), "anything");
    }
}
