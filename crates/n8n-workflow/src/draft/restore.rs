//! Puts hidden values back when a workflow that was shown redacted is written: each where it stood, found by the
//! node, the keys, the names of headers and fields, and the text around it. What is not certain is refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};
use upstream::redact::Redactor;
use upstream::text::clean;

use super::{Draft, is_setting};
use crate::expressions::visit_texts;
use crate::node::Node;

pub use upstream::redact::HIDDEN as PLACEHOLDER;

/// Places that an error names.
const MAX_PLACES: usize = 5;

/// Puts the hidden values of the `current` workflow into `draft` where it holds their placeholder, as `shown`
/// has it. `seen` is the draft as its author knows it: with placeholders for all that is hidden.
///
/// # Errors
/// The places where it is not certain which value is meant, or where none was hidden; and those where `redactor` would
/// no longer hide a value that it hid.
pub fn restore(
    draft: &mut Draft,
    seen: &Draft,
    shown: &Draft,
    current: &Draft,
    redactor: &Redactor,
) -> Result<(), String> {
    let mut unclear = Vec::new();
    move_pins(draft, current);
    keep_or_unset(&mut draft.settings, &current.settings)?;
    for node in &mut draft.nodes {
        let place = Place::node(node);
        let at = counterpart(node, current);
        let pair = at.and_then(|at| Some((shown.nodes.get(at)?, current.nodes.get(at)?)));
        restore_node(node, pair, &place, &mut unclear);
    }
    let mut settings = draft.settings.clone();
    settings.retain(|key, value| current.settings.get(key) != Some(value));
    unclear.extend(hidden_in(&[], &settings));
    refused(&unclear)?;
    stays_hidden(draft, seen, current, redactor)?;
    draft.hides_nothing = true;
    Ok(())
}

/// Errors with the places where a value would be shown of which the author of the draft has `seen` a placeholder only.
fn stays_hidden(
    draft: &Draft,
    seen: &Draft,
    current: &Draft,
    redactor: &Redactor,
) -> Result<(), String> {
    let (shown, seen_again) = (draft.redacted(redactor), seen.redacted(redactor));
    let mut open = Vec::new();
    for (at, node) in draft.nodes.iter().enumerate() {
        let (Some(shown), Some(seen), Some(again)) = (
            shown.nodes.get(at),
            seen.nodes.get(at),
            seen_again.nodes.get(at),
        ) else {
            continue;
        };
        let is_kept = counterpart(node, current).is_some_and(|at| current.nodes[at] == *node);
        if !is_kept {
            // A caller may write secrets, too, which are hidden in turn.
            let (seen, again) = (opened(seen, shown), opened(again, shown));
            open.extend(seen.intersection(&again).cloned());
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    open.truncate(MAX_PLACES);
    Err(format!(
        "Nothing was written: {}: a hidden value would be shown there, since it is hidden by its name or the text \
         around it, which would change. Keep those as get_workflow shows them, or write the value itself, a credential \
         or an expression.",
        open.join("; ")
    ))
}

/// The places with a placeholder in a node as it was `seen`, and with something else in it as it is `shown`.
fn opened(seen: &Node, shown: &Node) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let place = Place::node(shown);
    visit_members(seen, shown, &place, &mut |place, seen, shown| {
        let seen = written(seen);
        if seen.contains(PLACEHOLDER) && seen != written(shown) {
            found.insert(place.path);
        }
    });
    found
}

/// A value without what redaction changes besides secrets: the blanks in JSON, and invisible characters.
fn written(value: &Value) -> String {
    let text = value.as_str().map(clean).unwrap_or_default();
    let json = json_in(&text).map(|(_, value)| value.to_string());
    let mut written = match value {
        Value::String(_) => json.unwrap_or_else(|| text.into_owned()),
        other => other.to_string(),
    };
    written.retain(|c| !c.is_whitespace());
    written
}

/// Gives the draft the pinned data of the `current` one under the new names of nodes, if nodes with any were renamed.
pub(super) fn move_pins(draft: &mut Draft, current: &Draft) {
    let old = current.pin_data.clone().unwrap_or_default();
    let renamed = draft.nodes.iter().filter_map(|node| {
        let before = current.nodes[counterpart(node, current)?].name();
        let is_moved = before != node.name() && old.contains_key(before);
        is_moved.then(|| (before, node.name().to_owned()))
    });
    let renamed: Vec<_> = renamed.collect();
    let mut pins = old.clone();
    pins.retain(|name, _| renamed.iter().all(|(before, _)| before != name));
    let moved = renamed.iter();
    pins.extend(moved.map(|(before, now)| (now.clone(), old[*before].clone())));
    draft.pin_data = (!renamed.is_empty()).then_some(pins);
}

/// Writes what n8n takes as "none" for the settings that are gone: it keeps those that a change leaves out.
///
/// # Errors
/// If n8n has no such value of a setting.
fn keep_or_unset(
    settings: &mut Map<String, Value>,
    current: &Map<String, Value>,
) -> Result<(), String> {
    let gone: Vec<_> = current
        .keys()
        .filter(|key| is_setting(key) && !settings.contains_key(*key))
        .collect();
    for key in gone {
        let none = match key.as_str() {
            "errorWorkflow" | "timezone" => json!("DEFAULT"),
            "executionTimeout" => json!(-1),
            "callerIds" | "credentialResolverId" => json!(""),
            "availableInMCP" => json!(false),
            _ => {
                return Err(format!(
                    "Nothing was written: n8n keeps the setting {key:?} until it gets another value. Write one."
                ));
            }
        };
        settings.insert(key.clone(), none);
    }
    Ok(())
}

/// The same for one node, of which the `pair` is what was shown and what n8n has.
fn restore_node(
    node: &mut Node,
    pair: Option<(&Node, &Node)>,
    place: &Place,
    unclear: &mut Vec<String>,
) {
    let hidden = pair.map(|(shown, current)| Hidden::of(shown, current, place));
    let hidden = hidden.unwrap_or_default();
    let of = node.clone();
    for (key, value) in node.iter_mut() {
        let pair = pair.and_then(|(shown, current)| Some((shown.get(key)?, current.get(key)?)));
        hidden.put_into(value, pair, &place.member(key, &of), unclear);
    }
}

/// Parts of a node that stay if a caller leaves them out.
const KEPT_PARTS: &str = "id webhookId position typeVersion parameters credentials";

/// Gives a definition that a caller wrote what it lacks of the `current` one: nodes, connections and settings, of nodes
/// the [`KEPT_PARTS`]. Null takes away what is within a part.
pub(super) fn keep_parts(given: &mut Map<String, Value>, current: &Draft) {
    for (part, kept) in [
        ("nodes", json!(current.nodes)),
        ("connections", json!(current.connections)),
        ("settings", json!({})),
    ] {
        given.entry(part).or_insert(kept);
    }
    if let Some(settings) = given.get_mut("settings").and_then(Value::as_object_mut) {
        for (key, kept) in &current.settings {
            settings.entry(key).or_insert_with(|| kept.clone());
        }
    }
    let nodes = given.get_mut("nodes").and_then(Value::as_array_mut);
    for node in nodes.into_iter().flatten().filter_map(Value::as_object_mut) {
        let Some(at) = counterpart(&Node(node.clone()), current) else {
            continue;
        };
        for key in KEPT_PARTS.split(' ') {
            if let (false, Some(kept)) = (node.contains_key(key), current.nodes[at].get(key)) {
                node.insert(key.to_owned(), kept.clone());
            }
        }
    }
}

/// Errors with these places, if there are any.
pub(super) fn refused(places: &[String]) -> Result<(), String> {
    if places.is_empty() {
        return Ok(());
    }
    let more = match places.len().saturating_sub(MAX_PLACES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = places[..places.len().min(MAX_PLACES)].join("; ");
    Err(format!(
        "Nothing was written: {named}{more}: `{PLACEHOLDER}` stands for a hidden value, and it is not certain which \
         one belongs there. Keep that text, its name and its node as get_workflow shows them (then the value is put \
         back), or write the real value, a credential or an expression. For three asterisks of your own, write them \
         in another way."
    ))
}

/// The position of the node of `all` that `node` was: by id, else by name, and of the same type.
pub(crate) fn counterpart(node: &Node, all: &Draft) -> Option<usize> {
    let has = |same: &dyn Fn(&Node) -> bool| {
        let mut found = all.nodes.iter().enumerate().filter(|(_, one)| same(one));
        let first = found.next()?;
        found.next().is_none().then_some(first.0)
    };
    let id = node.get("id").filter(|id| id.is_string());
    let is_id = |one: &Node| id.is_some() && one.get("id") == id;
    let is_name = |one: &Node| one.name() == node.name();
    let found = has(&|one| is_id(one) && is_name(one))
        .or_else(|| has(&is_id))
        .or_else(|| has(&is_name))?;
    (all.nodes[found].kind() == node.kind()).then_some(found)
}

/// The values of a node by their places, each as it was shown and as n8n has it: several, if elements of arrays have
/// no names, or the same.
#[derive(Default)]
struct Hidden<'a>(BTreeMap<String, Vec<(&'a Value, &'a Value)>>);

impl<'a> Hidden<'a> {
    fn of(shown: &'a Node, current: &'a Node, place: &Place) -> Self {
        let mut all = Self::default();
        visit_members(shown, current, place, &mut |place, shown, current| {
            all.0.entry(place.key).or_default().push((shown, current));
        });
        all
    }

    /// Puts hidden values into what a caller gave. `pair` is the value at the same place, unless elements of an array
    /// are around it, which may have been moved.
    fn put_into(
        &self,
        given: &mut Value,
        pair: Option<(&Value, &Value)>,
        place: &Place,
        unclear: &mut Vec<String>,
    ) {
        if let Some((_, current)) = pair.filter(|(shown, _)| given == *shown) {
            given.clone_from(current);
            return;
        }
        match given {
            Value::Object(all) => {
                let of = all.clone();
                // A value belongs to the name beside it.
                let pair = pair.filter(|(shown, _)| {
                    shown
                        .as_object()
                        .is_some_and(|shown| label(shown) == label(&of))
                });
                for (key, value) in all.iter_mut() {
                    let pair = pair
                        .and_then(|(shown, current)| Some((shown.get(key)?, current.get(key)?)));
                    self.put_into(value, pair, &place.member(key, &of), unclear);
                }
            }
            Value::Array(all) => {
                for (at, value) in all.iter_mut().enumerate() {
                    let place = place.element(at, value);
                    self.put_into(value, None, &place, unclear);
                }
            }
            Value::String(text) if text.contains(PLACEHOLDER) => match self.restored(text, place) {
                Some(restored) => *given = restored,
                None if secrets(text).is_empty() => {}
                None => unclear.push(place.path.clone()),
            },
            _ => {}
        }
    }

    /// The value of a text with placeholders; `None` if it is not certain.
    fn restored(&self, given: &str, place: &Place) -> Option<Value> {
        let (first, others) = self.0.get(&place.key)?.split_first()?;
        match first {
            _ if others.iter().any(|other| other != first) => None,
            (shown, current) if *shown == given => Some((*current).clone()),
            (Value::String(shown), Value::String(current)) => {
                restored_text(given, shown, current).map(Value::String)
            }
            _ => None,
        }
    }
}

/// A text that was shown redacted and then changed, with its hidden values; `None` if it is not certain where
/// they belong.
fn restored_text(given: &str, shown: &str, current: &str) -> Option<String> {
    // Redaction removes invisible characters, and writes JSON without blanks.
    let compact = json_in(current).map(|(before, value)| format!("{before}{value}"));
    let forms = [
        Some(current.to_owned()),
        Some(clean(current).into_owned()),
        compact,
    ];
    let mut forms = forms.into_iter().flatten();
    let hidden = forms.find_map(|current| HiddenTexts::new(shown, &current));
    let restored = hidden?.put_into(given)?;
    Some(with_uncleaned(current, restored))
}

/// The text with what was `current` before and after its changed part, as it was there: also with the invisible
/// characters and the carriage returns that redaction removes.
fn with_uncleaned(current: &str, restored: String) -> String {
    let Cow::Owned(before) = clean(current) else {
        return restored;
    };
    // All line ends are those of Windows, and nothing else was removed.
    let windows = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    if current.replace("\r\n", "\n") == before && windows(&before) == current {
        return windows(&restored);
    }
    let (start, end) = changed_part(&before, &restored);
    let places = current.char_indices().map(|(at, _)| at);
    let places: Vec<_> = places.chain([current.len()]).collect();
    let length = |text: &str| clean(text).len();
    let from = places.partition_point(|at| length(&current[..*at]) <= start);
    let to = places.partition_point(|at| length(&current[*at..]) > end);
    let (Some(from), Some(to)) = (places.get(from.saturating_sub(1)), places.get(to)) else {
        return restored;
    };
    let (first, last) = (&current[..*from], &current[*to..]);
    let middle = restored.len().checked_sub(length(last));
    let middle = middle.and_then(|end| restored.get(length(first)..end));
    let whole = middle.map(|middle| format!("{first}{middle}{last}"));
    // Cleaning depends on what is around, as for lines that were written over.
    whole
        .filter(|whole| clean(whole) == clean(&restored))
        .unwrap_or(restored)
}

/// The JSON in a text or in an expression, and what is before it.
fn json_in(text: &str) -> Option<(&str, Value)> {
    let start = text.len() - text.trim_start_matches(['=', ' ', '\n']).len();
    let (before, json) = text.split_at(start);
    let is_json = json.starts_with(['{', '[']) && !json.starts_with("{{");
    let value = serde_json::from_str(json).ok().filter(|_| is_json)?;
    Some((before, value))
}

/// A text as it was shown, and what its placeholders hide.
struct HiddenTexts<'a> {
    shown: &'a str,
    /// Their places in `shown`, and the hidden texts.
    all: Vec<(Range<usize>, String)>,
}

impl<'a> HiddenTexts<'a> {
    /// `None` if it is not certain what is hidden.
    fn new(shown: &'a str, current: &str) -> Option<Self> {
        if longer_groups(shown) != longer_groups(current) {
            return None;
        }
        let places = placeholders(shown);
        let mut end = 0;
        let mut pieces: Vec<_> = places
            .iter()
            .map(|place| regex::escape(&shown[std::mem::replace(&mut end, place.end)..place.start]))
            .collect();
        pieces.push(regex::escape(&shown[end..]));
        // As short as possible, and as long as possible: if both agree, there is one way.
        let [short, long] = ["(.+?)", "(.+)"].map(|hidden| {
            let pattern = Regex::new(&format!("(?s)^{}$", pieces.join(hidden))).ok()?;
            let found = pattern.captures(current)?;
            let hidden = found.iter().skip(1).flatten();
            Some(
                hidden
                    .map(|one| one.as_str().to_owned())
                    .collect::<Vec<_>>(),
            )
        });
        let hidden = short.filter(|short| long.as_ref() == Some(short))?;
        Some(Self {
            shown,
            all: places.into_iter().zip(hidden).collect(),
        })
    }

    /// `given` with what its placeholders hide.
    fn put_into(&self, given: &str) -> Option<String> {
        let (mut out, mut end) = (String::new(), 0);
        let may_be_hidden = secrets(given);
        for place in placeholders(given) {
            let text = match self.hidden_at(given, &place) {
                Some(text) => text,
                None if may_be_hidden.contains(&place) => return None,
                None => PLACEHOLDER,
            };
            out.push_str(&given[end..place.start]);
            out.push_str(text);
            end = place.end;
        }
        out.push_str(&given[end..]);
        Some(out)
    }

    /// The text that the placeholder at this place of `given` hides; `None` if that is not certain.
    fn hidden_at(&self, given: &str, place: &Range<usize>) -> Option<&str> {
        let around = surroundings(given, place);
        let is_alike = |text: &str, at: &Range<usize>| surroundings(text, at) == around;
        let alike = || self.all.iter().filter(|(at, _)| is_alike(self.shown, at));
        if let Some(text) = only(alike()) {
            return Some(text);
        }
        // Several values have the same name: none of them may be in the part that was changed.
        let (start, end) = changed_part(self.shown, given);
        let is_inside =
            |at: &Range<usize>, length: usize| at.end > start && at.start + end < length;
        let is_certain = !alike().any(|(at, _)| is_inside(at, self.shown.len()))
            && !placeholders(given)
                .iter()
                .any(|at| is_alike(given, at) && is_inside(at, given.len()));
        if !is_certain {
            return None;
        }
        let from = match place.end <= start {
            true => place.start,
            false => (place.start + self.shown.len()).checked_sub(given.len())?,
        };
        only(alike().filter(|(at, _)| at.start == from))
    }
}

/// The hidden text that all of these have.
fn only<'a>(mut all: impl Iterator<Item = &'a (Range<usize>, String)>) -> Option<&'a str> {
    let (_, first) = all.next()?;
    all.all(|(_, text)| text == first).then_some(first)
}

/// The lengths of what two texts have in common at their start and at their end.
fn changed_part(before: &str, after: &str) -> (usize, usize) {
    let (before, after) = (before.as_bytes(), after.as_bytes());
    let pairs = before.iter().zip(after);
    let start = pairs.take_while(|(a, b)| a == b).count();
    let rest = before[start..]
        .iter()
        .rev()
        .zip(after[start..].iter().rev());
    (start, rest.take_while(|(a, b)| a == b).count())
}

/// Words in front of a secret that do not name it: the word before them does.
const UNNAMED: [&str; 5] = ["bearer", "basic", "digest", "negotiate", "value"];

/// The text around a placeholder: the name in front of it with what is between, and what closes it.
fn surroundings(text: &str, at: &Range<usize>) -> (String, String) {
    // JSON is shown without blanks.
    let before = name_before(&text[..at.start]).replace([' ', '\n'], "");
    (before, mark_after(&text[at.end..]).to_owned())
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
fn asterisks(text: &str) -> impl Iterator<Item = Range<usize>> {
    static ASTERISKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\*{3,}").ok());
    let found = ASTERISKS.iter().flat_map(move |all| all.find_iter(text));
    found.map(|one| one.range())
}

/// The places of all placeholders: exactly three asterisks.
fn placeholders(text: &str) -> Vec<Range<usize>> {
    asterisks(text)
        .filter(|at| at.len() == PLACEHOLDER.len())
        .collect()
}

/// The number of groups of more than three asterisks.
fn longer_groups(text: &str) -> usize {
    asterisks(text)
        .filter(|at| at.len() > PLACEHOLDER.len())
        .count()
}

/// The placeholders that can stand for a hidden value: without `***emphasis***` of Markdown and without the
/// `/***` and `***/` of a comment. A redacted value ends at the end of a word, and never looks like that.
fn secrets(text: &str) -> Vec<Range<usize>> {
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

/// The places of the placeholders of these nodes and settings that can stand for a hidden value.
pub(super) fn hidden_in(nodes: &[Node], settings: &Map<String, Value>) -> Vec<String> {
    let nodes = nodes
        .iter()
        .map(|node| (format!("node {:?}", node.name()), &node.0));
    let settings = ("the workflow's settings".to_owned(), settings);
    let all = nodes.chain([settings]);
    all.flat_map(|(place, members)| {
        let members = members.iter();
        members.flat_map(move |(key, value)| hidden_places(&format!("{place}, {key}"), value))
    })
    .collect()
}

/// The places in a value that is called `name` that hold the placeholder of a hidden value.
pub fn hidden_places(name: &str, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit_texts(value, name, &mut |path, text| {
        found.extend((!secrets(text).is_empty()).then(|| path.to_owned()));
    });
    found
}

/// A place within a node.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// For a reader.
    pub(crate) path: String,
    /// The same with the names of elements in place of their numbers.
    key: String,
    /// The last name in the path, and that of the header or field beside a `value`.
    name: String,
}

impl Place {
    fn node(node: &Node) -> Self {
        Self {
            path: format!("node {:?}", node.name()),
            ..Self::default()
        }
    }

    fn member(&self, key: &str, of: &Map<String, Value>) -> Self {
        let separator = match &*self.path {
            "" => "",
            path if self.name.is_empty() && !path.ends_with(']') => ", ",
            _ => ".",
        };
        let sibling = (key == "value").then(|| label(of)).flatten();
        let name = format!("{key} {}", sibling.unwrap_or_default());
        Self {
            path: format!("{}{separator}{key}", self.path),
            key: format!("{}.{name}", self.key),
            name,
        }
    }

    /// An element is known by its name or id, else by all that is in it.
    fn element(&self, at: usize, element: &Value) -> Self {
        let own = element.as_object().and_then(label);
        let own = own.or_else(|| element.get("id")?.as_str());
        let own = own.map_or_else(|| element.to_string(), str::to_owned);
        Self {
            path: format!("{}[{at}]", self.path),
            key: format!("{}[{own}]", self.key),
            name: self.name.clone(),
        }
    }
}

/// The name of a header, a field or another entry of an array.
fn label(entry: &Map<String, Value>) -> Option<&str> {
    ["name", "key"]
        .iter()
        .find_map(|key| entry.get(*key)?.as_str())
}

/// Visits what two values of the same shape hold at the same places.
fn visit<'a>(
    a: &'a Value,
    b: &'a Value,
    place: Place,
    found: &mut impl FnMut(Place, &'a Value, &'a Value),
) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if !a.is_empty() => visit_members(a, b, &place, found),
        (Value::Array(a), Value::Array(b)) if !a.is_empty() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                visit(a, b, place.element(at, a), found);
            }
        }
        _ => found(place, a, b),
    }
}

pub(crate) fn visit_members<'a>(
    a: &'a Map<String, Value>,
    b: &'a Map<String, Value>,
    place: &Place,
    found: &mut impl FnMut(Place, &'a Value, &'a Value),
) {
    for (key, value) in a {
        if let Some(other) = b.get(key) {
            visit(value, other, place.member(key, a), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts by name, as they were shown and as n8n has them; `\n` and `\r` are line breaks.
    const TEXTS: &str = r#"
url | https://bob:***@h/v1?api_key=***&b=2 | https://bob:pw@h/v1?api_key=k1&b=2
code | let apiKey = '***';\nlet b = {token: '***'};\nc() | let apiKey = 'k1';\nlet b = {token: 't2'};\nc()
twice | a({key: '***'});\nb({key: '***'});\nc() | a({key: 'k1'});\nb({key: 'k2'});\nc()
lines | a('Bearer ***')\nb('Bearer ***')\nc() | a('Bearer t1')\nb('Bearer t2')\nc()
body | ={"token":"***","n":1} | ={ "token": "t1", "n": 1 }
note | ***so*** password=*** | ***so*** password=p1
win | // é\na = '***';\nb();\nc() | // é\r\na = 'k1';\r\nb();\r\nc()
"#;
    /// A text, what a caller makes of it, and what is written; `-` if it is not certain what is meant.
    const CHANGES: &str = r#"
url | https://eve:***@h/v1 | -
code | let d;\nlet b = {token: '***'};\nlet apiKey = '***'; | let d;\nlet b = {token: 't2'};\nlet apiKey = 'k1';
code | let apiKey = "***"; | -
code | let apiKey = '***' + '***'; | -
twice | a({key: '***'});\nb({key: '***'});\nd() | a({key: 'k1'});\nb({key: 'k2'});\nd()
twice | b({key: '***'});\na({key: '***'});\nc() | -
twice | b({key: '***'});\nc() | -
lines | b('Bearer ***')\nd()\na('Bearer ***') | b('Bearer t2')\nd()\na('Bearer t1')
lines | a('Bearer ***')\ne('Bearer ***')\nc() | -
body | ={"token":"***","at":{{ $now }}} | ={"token":"t1","at":{{ $now }}}
body | ={"secret":"***"} | -
note | ***very*** much, password=*** | ***very*** much, password=p1
win | // é\na = '***';\nd();\nc() | // é\r\na = 'k1';\r\nd();\r\nc()
win | // é\na = '***';\nd();\ne();\nc()\nf() | // é\r\na = 'k1';\r\nd();\r\ne();\r\nc()\r\nf()
win | a = '***'; | a = 'k1';
"#;

    fn rows(table: &str) -> impl Iterator<Item = [String; 3]> {
        table.trim().lines().map(|row| {
            let row = row.replace(r"\n", "\n").replace(r"\r", "\r");
            let cells: Vec<_> = row.split(" | ").map(str::to_owned).collect();
            cells.try_into().unwrap()
        })
    }

    #[test]
    fn hidden_values_of_texts_are_found_by_the_text_around_them() {
        for [name, given, expected] in rows(CHANGES) {
            let [_, shown, current] = rows(TEXTS).find(|text| text[0] == name).unwrap();
            let expected = (expected != "-").then(|| expected.into());
            assert_restored(&json!(given), &json!(shown), &json!(current), expected);
        }
    }

    #[test]
    fn hidden_values_without_names_are_found_where_nothing_moved() {
        let (shown, current) = (json!(["***", "***"]), json!(["a", "b"]));
        for (given, expected) in [
            (json!(["***", "***"]), Some(json!(["a", "b"]))),
            (json!(["***"]), None),
            (json!(["x", "***"]), None),
            (json!(["***", "***", "***"]), None),
        ] {
            assert_restored(&given, &shown, &current, expected);
        }
    }

    fn assert_restored(given: &Value, shown: &Value, current: &Value, expected: Option<Value>) {
        let node = |value: &Value| Node(Map::from_iter([("v".to_owned(), value.clone())]));
        let (mut node_now, mut unclear) = (node(given), Vec::new());
        let pair = Some((&node(shown), &node(current)));
        restore_node(
            &mut node_now,
            pair,
            &Place::node(&Node::default()),
            &mut unclear,
        );
        match expected {
            Some(expected) => {
                assert_eq!(
                    (&node_now["v"], unclear),
                    (&expected, Vec::new()),
                    "{given}"
                );
            }
            None => assert!(!unclear.is_empty(), "{given}: {node_now:?}"),
        }
    }

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
    fn names_of_nodes_are_shown() {
        let redactor = Redactor::new(true);
        let node = json!({"parameters": {"password": "x9x9x9"}, "name": "password='x9x9x9'"});
        let node: Node = serde_json::from_value(node).unwrap();
        let shown = node.redacted(&redactor);
        assert_eq!(shown.name(), "password='x9x9x9'");
        assert_eq!(shown.parameters()["password"], "***");
    }
}
