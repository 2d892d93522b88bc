//! The placeholder of a hidden value in the texts of a definition: where it stands, and what is around it.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};

use super::name_of;

pub use upstream::redact::HIDDEN as PLACEHOLDER;

/// Words in front of a secret that do not name it: the word before them does.
const UNNAMED: [&str; 5] = ["bearer", "basic", "digest", "negotiate", "value"];

/// The text around a placeholder: the name in front of it with what is between, and what closes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Surroundings {
    before: String,
    after: String,
}

impl Surroundings {
    pub(super) fn new(text: &str, at: &Range<usize>) -> Self {
        Self {
            before: name_before(&text[..at.start]).to_owned(),
            after: mark_after(&text[at.end..]).to_owned(),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '$')
}

/// The end of `text` from its last word on.
fn name_before(text: &str) -> &str {
    let end = text.trim_end_matches(|c| !is_word(c)).len();
    let word = text[..end].trim_end_matches(is_word).len();
    if UNNAMED.contains(&text[word..end].to_ascii_lowercase().as_str()) {
        let end = text[..word].trim_end_matches(|c| !is_word(c)).len();
        return &text[text[..end].trim_end_matches(is_word).len()..];
    }
    &text[word..]
}

/// The end of a value: a quotation mark, the host after `@`, the rest of a word; empty for a blank, a comma and
/// other ends, which are the same for a value.
fn mark_after(text: &str) -> &str {
    let until =
        |is_part: fn(char) -> bool| &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())];
    match text.chars().next() {
        Some('@') => until(|c| is_word(c) || matches!(c, '@' | '.' | ':')),
        Some(c) if is_word(c) => until(is_word),
        Some(c @ ('"' | '\'' | '`' | '\\' | '/' | '<' | '=' | ':')) => &text[..c.len_utf8()],
        _ => "",
    }
}

/// The places of all asterisks of which at least three stand together.
fn asterisks(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(start) = text[at..].find(PLACEHOLDER) {
        let start = at + start;
        let length = text[start..].find(|c| c != '*');
        at = length.map_or(text.len(), |length| start + length);
        found.push(start..at);
    }
    found
}

/// The places of all placeholders: exactly three asterisks.
pub(super) fn placeholders(text: &str) -> Vec<Range<usize>> {
    let mut found = asterisks(text);
    found.retain(|at| at.len() == PLACEHOLDER.len());
    found
}

/// The number of groups of more than three asterisks.
pub(super) fn longer_groups(text: &str) -> usize {
    asterisks(text).len() - placeholders(text).len()
}

/// The placeholders that can stand for a hidden value: without `***emphasis***` of Markdown and without the
/// `/***` and `***/` of a comment. A redacted value ends at the end of a word, and never looks like that.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let all = placeholders(text);
    let before = |at: &Range<usize>| text[..at.start].chars().next_back();
    let after = |at: &Range<usize>| text[at.end..].chars().next();
    let is_in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
    let opens = |at: &Range<usize>| !is_in_word(before(at)) && is_in_word(after(at));
    let closes = |at: &Range<usize>| !is_blank(before(at)) && !is_in_word(after(at));
    let is_emphasis = |pair: [&Range<usize>; 2]| {
        let [first, second] = pair;
        opens(first) && closes(second) && !text[first.end..second.start].contains('\n')
    };
    let is_comment = |at: &Range<usize>| {
        let opened = text[..at.start].strip_suffix('/');
        opened.is_some_and(|rest| is_blank(rest.chars().next_back()))
            || (after(at) == Some('/') && is_blank(before(at)))
    };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(one) = all.get(at) {
        if all.get(at + 1).is_some_and(|next| is_emphasis([one, next])) {
            at += 2;
            continue;
        }
        found.extend((!is_comment(one)).then(|| one.clone()));
        at += 1;
    }
    found
}

/// The placeholders that stand in a definition, by the name of the parameter and the text around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placeholders(BTreeSet<(String, Surroundings)>);

impl Placeholders {
    /// The placeholders of these nodes and settings.
    pub(super) fn new(nodes: &[Map<String, Value>], settings: &Map<String, Value>) -> Self {
        let mut found = Self::default();
        visit(nodes, settings, &mut |place, text| {
            let around = secrets(text)
                .into_iter()
                .map(|at| (place.name.clone(), Surroundings::new(text, &at)));
            found.0.extend(around);
        });
        found
    }

    /// The places of those that are not among `self`.
    pub(super) fn others(
        &self,
        nodes: &[Map<String, Value>],
        settings: &Map<String, Value>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        visit(nodes, settings, &mut |place, text| {
            let is_new = |at| {
                !self
                    .0
                    .contains(&(place.name.clone(), Surroundings::new(text, &at)))
            };
            if secrets(text).into_iter().any(is_new) {
                found.push(place.path.clone());
            }
        });
        found
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

/// A place in a definition.
#[derive(Clone)]
pub(super) struct Place {
    /// For a reader.
    pub(super) path: String,
    /// The last name in the path, and that of the header or field beside a `value`.
    name: String,
}

impl Place {
    /// A node of a workflow.
    pub(super) fn node(node: &Map<String, Value>) -> Self {
        Self {
            path: format!("node {:?}", name_of(node)),
            name: String::new(),
        }
    }

    fn settings() -> Self {
        Self {
            path: "the workflow's settings".to_owned(),
            name: String::new(),
        }
    }

    pub(super) fn member(&self, key: &str, of: &Map<String, Value>) -> Self {
        let separator = match self.name.is_empty() && !self.path.ends_with(']') {
            true => ", ",
            false => ".",
        };
        let sibling = (key == "value").then(|| label(of)).flatten();
        Self {
            path: format!("{}{separator}{key}", self.path),
            name: format!("{key} {}", sibling.unwrap_or_default()),
        }
    }

    pub(super) fn element(&self, at: usize) -> Self {
        Self {
            path: format!("{}[{at}]", self.path),
            name: self.name.clone(),
        }
    }
}

/// The name of a header, a field or another entry of an array.
pub(super) fn label(entry: &Map<String, Value>) -> Option<&str> {
    ["name", "key"]
        .iter()
        .find_map(|key| entry.get(*key)?.as_str())
}

/// Calls `see` with every text of the nodes and the settings.
fn visit(
    nodes: &[Map<String, Value>],
    settings: &Map<String, Value>,
    see: &mut impl FnMut(&Place, &str),
) {
    for node in nodes {
        visit_members(node, &Place::node(node), see);
    }
    visit_members(settings, &Place::settings(), see);
}

fn visit_members(all: &Map<String, Value>, place: &Place, see: &mut impl FnMut(&Place, &str)) {
    for (key, value) in all {
        visit_value(value, &place.member(key, all), see);
    }
}

fn visit_value(value: &Value, place: &Place, see: &mut impl FnMut(&Place, &str)) {
    match value {
        Value::String(text) if text.contains(PLACEHOLDER) => see(place, text),
        Value::Array(all) => {
            for (at, value) in all.iter().enumerate() {
                visit_value(value, &place.element(at), see);
            }
        }
        Value::Object(all) => visit_members(all, place, see),
        _ => {}
    }
}

/// The places in a value that hold the placeholder of a hidden value.
pub(super) fn hidden_in(value: &Value, place: &Place) -> Vec<String> {
    let mut found = Vec::new();
    visit_value(value, place, &mut |place, text| {
        if !secrets(text).is_empty() {
            found.push(place.path.clone());
        }
    });
    found
}

/// The same for a value that is called `name`.
pub fn hidden_places(name: &str, value: &Value) -> Vec<String> {
    let start = Place {
        path: name.to_owned(),
        name: name.to_owned(),
    };
    hidden_in(value, &start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emphasis_and_comments_are_no_placeholders() {
        for (text, count) in [
            ("***", 1),
            ("Bearer ***", 1),
            ("https://h/?api_key=***&b=2", 1),
            ("https://bob:***@h/x", 1),
            ("const a = '***', b = '***'", 2),
            ("a ***bold word*** b", 0),
            ("***bold***", 0),
            ("***bold*** and ***", 1),
            ("***one\ntwo***", 2),
            ("****", 0),
            ("/*** Section ***/ const a = '***'", 1),
            ("hooks.slack.com/services/***", 1),
            ("0 0 * * *", 0),
            ("{\"token\":\"***\"}", 1),
        ] {
            assert_eq!(secrets(text).len(), count, "{text}");
        }
    }

    #[test]
    fn places_are_named() {
        let value = serde_json::json!({"a": [{"name": "X", "value": "***"}], "b": "***b***"});
        assert_eq!(hidden_places("data", &value), ["data.a[0].value"]);
    }
}
