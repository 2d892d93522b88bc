//! Puts hidden values back when a workflow that was shown redacted is written: each where it stood, found by
//! the node, the keys, the names of headers and fields, and the text around it. What is not certain is refused.

use std::ops::Range;

use serde_json::{Map, Value};
use upstream::text::clean;

use super::placeholder::{
    PLACEHOLDER, Place, Surroundings, hidden_in, label, longer_groups, placeholders, secrets,
};
use super::{Draft, DraftError, name_of, type_of};

/// Places that an error names.
const MAX_PLACES: usize = 5;

/// Puts the hidden values of the `current` workflow into `draft` where it holds their placeholder, as `shown`
/// has it.
///
/// # Errors
/// The places where it is not certain which value is meant, or where none was hidden.
pub fn restore(draft: &mut Draft, shown: &Draft, current: &Draft) -> Result<(), DraftError> {
    let mut unclear = Vec::new();
    for node in &mut draft.nodes {
        let place = Place::node(node);
        let at = counterpart(node, current);
        let pair = at.and_then(|at| Some((shown.nodes.get(at)?, current.nodes.get(at)?)));
        match pair {
            Some((shown, current)) => restore_members(node, shown, current, &place, &mut unclear),
            None => {
                for (key, value) in node.iter() {
                    unclear.extend(hidden_in(value, &place.member(key, node)));
                }
            }
        }
    }
    refused(&unclear)?;
    draft.placeholders.extend(&current.placeholders);
    draft.writable().map(drop)
}

/// Gives the nodes of a definition that a caller wrote what they lack of the `current` ones: id, webhook id and
/// credentials. Null takes them away.
pub fn keep_parts(given: &mut Map<String, Value>, current: &Draft) {
    let nodes = given.get_mut("nodes").and_then(Value::as_array_mut);
    for node in nodes.into_iter().flatten().filter_map(Value::as_object_mut) {
        let Some(at) = counterpart(node, current) else {
            continue;
        };
        for key in ["id", "webhookId", "credentials"] {
            if let (false, Some(kept)) = (node.contains_key(key), current.nodes[at].get(key)) {
                node.insert(key.to_owned(), kept.clone());
            }
        }
    }
}

/// Errors with these places, if there are any.
pub(super) fn refused(places: &[String]) -> Result<(), DraftError> {
    if places.is_empty() {
        return Ok(());
    }
    let more = match places.len().saturating_sub(MAX_PLACES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = places[..places.len().min(MAX_PLACES)].join("; ");
    Err(DraftError(format!(
        "Nothing was written: {named}{more}: `{PLACEHOLDER}` stands for a hidden value, and it is not certain which \
         one belongs there. Keep that text, its name and its node as get_workflow shows them (then the value is put \
         back), or write the real value, a credential or an expression. For three asterisks of your own, write them \
         in another way."
    )))
}

/// The position of the node of `all` that `node` was: by id, else by name, and of the same type.
pub(super) fn counterpart(node: &Map<String, Value>, all: &Draft) -> Option<usize> {
    let has = |same: &dyn Fn(&Map<String, Value>) -> bool| {
        let mut found = all.nodes.iter().enumerate().filter(|(_, one)| same(one));
        let first = found.next()?;
        found.next().is_none().then_some(first.0)
    };
    let id = node.get("id").filter(|id| id.is_string());
    let is_id = |one: &Map<String, Value>| id.is_some() && one.get("id") == id;
    let is_name = |one: &Map<String, Value>| name_of(one) == name_of(node);
    let found = has(&|one| is_id(one) && is_name(one))
        .or_else(|| has(&is_id))
        .or_else(|| has(&is_name))?;
    (type_of(&all.nodes[found]) == type_of(node)).then_some(found)
}

fn restore_members(
    given: &mut Map<String, Value>,
    shown: &Map<String, Value>,
    current: &Map<String, Value>,
    place: &Place,
    unclear: &mut Vec<String>,
) {
    let is_renamed = label(given) != label(shown);
    let of = given.clone();
    for (key, given) in given.iter_mut() {
        let place = place.member(key, &of);
        let pair = (shown.get(key), current.get(key));
        match pair {
            // A value belongs to the name beside it.
            (Some(shown), Some(current)) if !(is_renamed && key == "value") => {
                restore_value(given, shown, current, &place, unclear);
            }
            _ => unclear.extend(hidden_in(given, &place)),
        }
    }
}

fn restore_value(
    given: &mut Value,
    shown: &Value,
    current: &Value,
    place: &Place,
    unclear: &mut Vec<String>,
) {
    if given == shown {
        given.clone_from(current);
        return;
    }
    match (&mut *given, shown, current) {
        (Value::Object(given), Value::Object(shown), Value::Object(current)) => {
            restore_members(given, shown, current, place, unclear);
        }
        (Value::Array(given), Value::Array(shown), Value::Array(current)) => {
            restore_elements(given, shown, current, place, unclear);
        }
        (Value::String(text), Value::String(shown), Value::String(current)) => {
            match restored_text(text, shown, current) {
                Some(restored) => *text = restored,
                None => unclear.push(place.path.clone()),
            }
        }
        _ => unclear.extend(hidden_in(given, place)),
    }
}

fn restore_elements(
    given: &mut [Value],
    shown: &[Value],
    current: &[Value],
    place: &Place,
    unclear: &mut Vec<String>,
) {
    let before = given.to_vec();
    for (at, given) in given.iter_mut().enumerate() {
        let place = place.element(at);
        if !holds_placeholder(given) {
            continue;
        }
        match origin(&before, at, shown, current) {
            Some(origin) => {
                restore_value(given, &shown[origin], &current[origin], &place, unclear);
            }
            None => unclear.extend(hidden_in(given, &place)),
        }
    }
}

/// The position of the element of `shown` that `given[at]` was; `None` if that is not certain.
fn origin(given: &[Value], at: usize, shown: &[Value], current: &[Value]) -> Option<usize> {
    let one = &given[at];
    let candidates = |is: &dyn Fn(&Value) -> bool| -> Vec<usize> {
        let all = shown.iter().enumerate();
        all.filter(|(_, one)| is(one)).map(|(at, _)| at).collect()
    };
    // Those that hide the same cannot be told apart, and need not be.
    let same = |found: Vec<usize>| {
        let first = *found.first()?;
        let is_one = found.iter().all(|other| current[*other] == current[first]);
        is_one.then_some(first)
    };
    let text = |one: &Value, key: &str| Some(one.get(key)?.as_str()?.to_owned());
    let of_name = one.as_object().and_then(label);
    let by_name =
        candidates(&|other| of_name.is_some() && other.as_object().and_then(label) == of_name);
    if by_name.len() == 1 {
        return by_name.first().copied();
    }
    let equal = candidates(&|other| other == one);
    if let Some(found) = same(equal.clone()) {
        return Some(found);
    }
    let id = text(one, "id");
    let by_id = candidates(&|other| id.is_some() && text(other, "id") == id);
    if by_id.len() == 1 && (by_name.is_empty() || by_name.contains(&by_id[0])) {
        return by_id.first().copied();
    }
    // The elements around it are as they were, and those that changed or are new hold no placeholder.
    let is_same_place = at < shown.len() && given.len() >= shown.len() && {
        let mut others = given.iter().enumerate().filter(|(other, _)| *other != at);
        others.all(|(other, given)| shown.get(other) == Some(given) || !holds_placeholder(given))
    };
    let is_named = of_name.is_some() || id.is_some();
    let is_unchanged = equal.contains(&at);
    (is_same_place && (is_unchanged || !is_named)).then_some(at)
}

fn holds_placeholder(value: &Value) -> bool {
    !hidden_in(value, &Place::node(&Map::new())).is_empty()
}

/// A text that was shown redacted and then changed, with its hidden values; `None` if it is not certain where
/// they belong.
fn restored_text(given: &str, shown: &str, current: &str) -> Option<String> {
    if !given.contains(PLACEHOLDER) {
        return Some(given.to_owned());
    }
    restored_json(given, shown, current).or_else(|| {
        // Redaction removes invisible characters, and writes JSON without blanks.
        let compact = json_in(current).map(|(before, value)| format!("{before}{value}"));
        let forms = [
            Some(current.to_owned()),
            Some(clean(current).into_owned()),
            compact,
        ];
        let mut forms = forms.into_iter().flatten();
        let hidden = forms.find_map(|current| HiddenTexts::new(shown, &current));
        match hidden {
            Some(hidden) => hidden.put_into(given),
            None => secrets(given).is_empty().then(|| given.to_owned()),
        }
    })
}

/// The same for JSON in a text, member by member; `None` also if one of the texts is no JSON.
fn restored_json(given: &str, shown: &str, current: &str) -> Option<String> {
    let ((before, mut value), (_, shown)) = (json_in(given)?, json_in(shown)?);
    let (_, hidden) = json_in(current)?;
    let mut unclear = Vec::new();
    let place = Place::node(&Map::new());
    restore_value(&mut value, &shown, &hidden, &place, &mut unclear);
    if !unclear.is_empty() {
        return None;
    }
    if value == hidden {
        return Some(current.to_owned());
    }
    let text = match given.contains('\n') {
        true => serde_json::to_string_pretty(&value).ok()?,
        false => value.to_string(),
    };
    Some(format!("{before}{text}"))
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
        let mut pieces = Vec::new();
        let mut end = 0;
        for place in &places {
            pieces.push(&shown[end..place.start]);
            end = place.end;
        }
        pieces.push(&shown[end..]);
        let (first, rest) = pieces.split_first()?;
        let inner = current.strip_prefix(*first)?;
        let Some((last, between)) = rest.split_last() else {
            return (shown == current).then(|| Self {
                shown,
                all: Vec::new(),
            });
        };
        let inner = inner.strip_suffix(*last)?;
        // The pieces that are shown, from the left and from the right: if both agree, there is one way.
        let mut from_left = Vec::new();
        let mut at = 0;
        for piece in between {
            let next = inner
                .char_indices()
                .map(|(at, _)| at)
                .find(|next| *next > at)?;
            let start = next + inner[next..].find(piece)?;
            from_left.push((at, start));
            at = start + piece.len();
        }
        from_left.push((at, inner.len()));
        let mut until = inner.len();
        for (position, piece) in between.iter().enumerate().rev() {
            let last = inner[..until].char_indices().next_back()?.0;
            let start = inner[..last].rfind(piece)?;
            if from_left[position].1 != start {
                return None;
            }
            until = start;
        }
        let hidden = from_left
            .iter()
            .map(|(from, to)| inner[*from..*to].to_owned());
        let all: Vec<_> = places.into_iter().zip(hidden).collect();
        let is_hidden = all.iter().all(|(_, text)| !text.is_empty());
        is_hidden.then_some(Self { shown, all })
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
        let around = Surroundings::new(given, place);
        let is_alike = |text: &str, at: &Range<usize>| Surroundings::new(text, at) == around;
        let alike = || self.all.iter().filter(|(at, _)| is_alike(self.shown, at));
        if let Some(text) = only(alike()) {
            return Some(text);
        }
        // Several values have the same name: the line decides, if it is the only one of its kind.
        let line = line_around(given, place);
        let of_line = alike().filter(|(at, _)| line_around(self.shown, at) == line);
        if let Some(text) = only(of_line) {
            return Some(text);
        }
        // Or that none of them is in the part that was changed.
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

/// The line with this place, without blanks around it, and the place in it.
fn line_around<'a>(text: &'a str, place: &Range<usize>) -> (&'a str, usize) {
    let start = text[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[place.end..].find('\n');
    let line = &text[start..end.map_or(text.len(), |at| place.end + at)];
    let trimmed = line.trim_start();
    let at = (place.start - start).saturating_sub(line.len() - trimmed.len());
    (trimmed.trim_end(), at)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_values_of_texts_are_found_by_the_text_around_them() {
        let url = (
            "https://bob:***@h/v1?api_key=***&b=2",
            "https://bob:pw@h/v1?api_key=k1&b=2",
        );
        let code = (
            "const apiKey = '***';\nconst b = { token: '***' };\nreturn 1;",
            "const apiKey = 'k1';\nconst b = { token: 't2' };\nreturn 1;",
        );
        let twice = (
            "a({\n key: '***',\n});\nb({\n key: '***',\n});\nreturn 1;",
            "a({\n key: 'k1',\n});\nb({\n key: 'k2',\n});\nreturn 1;",
        );
        let lines = (
            "a('Bearer ***')\nb('Bearer ***')\nc()",
            "a('Bearer t1')\nb('Bearer t2')\nc()",
        );
        let body = (
            "={\"token\":\"***\",\"n\":1}",
            "={ \"token\": \"t1\", \"n\": 1 }",
        );
        let note = ("***so*** password=***", "***so*** password=p1");
        for ((shown, current), given, expected) in [
            (
                url,
                "https://bob:***@h/v2?c=3&api_key=***",
                Some("https://bob:pw@h/v2?c=3&api_key=k1"),
            ),
            (
                url,
                "https://h/v1?api_key=***&b=2",
                Some("https://h/v1?api_key=k1&b=2"),
            ),
            (url, "https://bob:***@evil/v1", None),
            (url, "https://eve:***@h/v1", None),
            (url, "https://h/?key=***", None),
            (url, "***", None),
            (url, "https://h/", Some("https://h/")),
            (
                code,
                "const apiKey = '***';\nconst b = { token: '***' };\nreturn 2;",
                Some("const apiKey = 'k1';\nconst b = { token: 't2' };\nreturn 2;"),
            ),
            (
                code,
                "let c;\nconst b = { token: '***' };\nconst apiKey = '***';",
                Some("let c;\nconst b = { token: 't2' };\nconst apiKey = 'k1';"),
            ),
            (code, "const other = '***';", None),
            (code, "const apiKey = \"***\";", None),
            (code, "const apiKey = '***' + '***';", None),
            (
                twice,
                "a({\n key: '***',\n});\nb({\n key: '***',\n});\nreturn 2;",
                Some("a({\n key: 'k1',\n});\nb({\n key: 'k2',\n});\nreturn 2;"),
            ),
            (
                twice,
                "b({\n key: '***',\n});\na({\n key: '***',\n});\nreturn 1;",
                None,
            ),
            (twice, "b({\n key: '***',\n});\nreturn 1;", None),
            (
                lines,
                "b('Bearer ***')\nd()\na('Bearer ***')",
                Some("b('Bearer t2')\nd()\na('Bearer t1')"),
            ),
            (lines, "a('Bearer ***')\ne('Bearer ***')\nc()", None),
            (
                body,
                "={\"n\": 2, \"token\": \"***\"}",
                Some("={\"n\":2,\"token\":\"t1\"}"),
            ),
            (
                body,
                "={\"token\":\"***\",\"n\":1}",
                Some("={ \"token\": \"t1\", \"n\": 1 }"),
            ),
            (
                body,
                "={\"token\":\"***\",\"at\":{{ $now }}}",
                Some("={\"token\":\"t1\",\"at\":{{ $now }}}"),
            ),
            (body, "={\"secret\":\"***\"}", None),
            (
                note,
                "***very*** much, password=***",
                Some("***very*** much, password=p1"),
            ),
        ] {
            let mut value = json!(given);
            let mut unclear = Vec::new();
            let place = Place::node(&Map::new());
            restore_value(
                &mut value,
                &json!(shown),
                &json!(current),
                &place,
                &mut unclear,
            );
            match expected {
                Some(expected) => {
                    assert_eq!((value, unclear), (json!(expected), Vec::new()), "{given}")
                }
                None => assert_eq!(unclear.len(), 1, "{given}: {value}"),
            }
        }
    }

    #[test]
    fn hidden_values_of_arrays_are_found_by_name() {
        let header = |name: &str, value: &str| json!({"name": name, "value": value});
        let shown = json!([
            header("X-Api-Key", "***"),
            header("Accept", "*/*"),
            header("Authorization", "***")
        ]);
        let current = json!([
            header("X-Api-Key", "k1"),
            header("Accept", "*/*"),
            header("Authorization", "a2")
        ]);
        for (given, expected) in [
            (
                json!([
                    header("Authorization", "***"),
                    header("New", "n"),
                    header("X-Api-Key", "***")
                ]),
                Some(json!([
                    header("Authorization", "a2"),
                    header("New", "n"),
                    header("X-Api-Key", "k1")
                ])),
            ),
            (
                json!([header("X-Api-Key", "new")]),
                Some(json!([header("X-Api-Key", "new")])),
            ),
            (json!([header("X-Other", "***")]), None),
            (json!([{"value": "***"}]), None),
            (json!(["***"]), None),
        ] {
            let (mut value, mut unclear) = (given.clone(), Vec::new());
            let place = Place::node(&Map::new());
            restore_value(&mut value, &shown, &current, &place, &mut unclear);
            match expected {
                Some(expected) => assert_eq!((value, unclear), (expected, Vec::new())),
                None => assert_eq!(unclear.len(), 1, "{given}"),
            }
        }
        // Without names: only where nothing else moved.
        for (given, expected) in [
            (json!(["***", "***", "c"]), Some(json!(["a", "b", "c"]))),
            (json!(["***"]), None),
            (json!(["x", "***"]), Some(json!(["x", "b"]))),
            (json!(["***", "***", "***"]), None),
        ] {
            let (mut value, mut unclear) = (given.clone(), Vec::new());
            let place = Place::node(&Map::new());
            let (shown, current) = (json!(["***", "***"]), json!(["a", "b"]));
            restore_value(&mut value, &shown, &current, &place, &mut unclear);
            match expected {
                Some(expected) => assert_eq!((value, unclear), (expected, Vec::new())),
                None => assert!(!unclear.is_empty(), "{given}"),
            }
        }
    }
}
