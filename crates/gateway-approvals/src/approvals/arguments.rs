//! The arguments of a call as people see them, and what identifies them.
//!
//! The shown text describes what the backend gets: a character that no screen shows is written as its number, and a
//! value is hidden only where it is a plain token, with its length. A call that cannot be shown like this is refused.

use gateway_access::unambiguous;
use hmac_sha256::Hash;
use serde_json::Value;
use serde_json::value::RawValue;
use upstream::redact::{HIDDEN, Redactor, can_be_secret};
use upstream::text::{hexadecimal, truncate, visible};

/// Limit for the characters that people see.
const MAX_SHOWN_CHARS: usize = 4_000;

/// Limit for the characters of a note about what is not shown.
const MAX_NOTE_CHARS: usize = 48;

/// Limit for the characters of a value that is hidden.
const MAX_HIDDEN_CHARS: usize = 2_048;

/// Punctuation that a hidden value may have: no shell, path with blanks, or query can be written with it alone.
const TOKEN_PUNCTUATION: &str = "-_.+/=~!@%^,:";

/// Limit for the characters of a place in an error.
const MAX_PLACE_CHARS: usize = 200;

/// The arguments of a call that a person decides about.
#[derive(Debug)]
pub(super) struct ShownArguments {
    /// Has each name; secrets and the ends of long values are replaced by their lengths.
    pub(super) text: String,
    /// The same with the hidden values; `None` for a call without them. It is never stored.
    pub(super) whole: Option<String>,
    /// Of the tool and the arguments, in hexadecimal digits. The order of members and white space do not count.
    pub(super) hash: String,
}

impl ShownArguments {
    /// Reads the arguments of a call of `tool`.
    ///
    /// # Errors
    /// A person could see others than the backend reads.
    pub(super) fn read(tool: &str, json: &str) -> Result<Self, String> {
        let unreadable = |_| "the arguments cannot be read".to_owned();
        let raw: &RawValue = serde_json::from_str(json).map_err(unreadable)?;
        unambiguous(raw)?;
        let mut value: Value = serde_json::from_str(json).map_err(unreadable)?;
        value.sort_all_objects();
        let hash = hexadecimal(&Hash::hash(format!("{tool}\n{value}").as_bytes()));
        let mut redacted = value.clone();
        Redactor::of_all().json(&mut redacted);
        count_hidden("", &value, &mut redacted)?;
        let text =
            shown(&redacted).ok_or("the arguments have too many or too long names to show them")?;
        let whole = (redacted != value).then(|| shown(&value)).flatten();
        Ok(Self { text, whole, hash })
    }
}

/// Writes the length of each hidden part into `redacted`.
///
/// # Errors
/// The place of a hidden part that may be more than a secret.
fn count_hidden(place: &str, value: &Value, redacted: &mut Value) -> Result<(), String> {
    let step = |name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}.{name}"),
    };
    match (value, redacted) {
        (Value::Object(members), Value::Object(shown)) => {
            let mut members = members.iter().zip(shown.iter_mut());
            members.try_for_each(|((name, value), (_, shown))| {
                // The parts of one secret can be a command, too.
                match can_be_secret(name) && hidden_values(value, shown) > 1 {
                    true => Err(unseen(&step(name))),
                    false => count_hidden(&step(name), value, shown),
                }
            })
        }
        // Plain tokens one after the other can be a command.
        (Value::Array(all), Value::Array(shown)) if hidden_items(all, shown) > 1 => {
            Err(unseen(place))
        }
        (Value::Array(all), Value::Array(shown)) => {
            let is_flag = |at: usize| all[at].as_str().is_some_and(|word| word.starts_with('-'));
            let mut items = all.iter().zip(shown).enumerate();
            items.try_for_each(|(at, (one, shown))| {
                let place = step(&at.to_string());
                match at > 0 && is_flag(at - 1) && hidden_values(one, shown) > 1 {
                    true => Err(unseen(&place)),
                    false => count_hidden(&place, one, shown),
                }
            })
        }
        (Value::String(text), Value::String(shown)) if text != shown => {
            *shown = counted(text, shown).ok_or_else(|| unseen(place))?;
            Ok(())
        }
        (Value::Number(number), Value::String(shown)) => {
            *shown = counted(&number.to_string(), shown).ok_or_else(|| unseen(place))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The number of hidden values in a value, at any depth.
fn hidden_values(value: &Value, shown: &Value) -> usize {
    match (value, shown) {
        (Value::Object(members), Value::Object(shown)) => {
            let pairs = members.values().zip(shown.values());
            pairs
                .map(|(value, shown)| hidden_values(value, shown))
                .sum()
        }
        (Value::Array(all), Value::Array(shown)) => {
            let pairs = all.iter().zip(shown);
            pairs
                .map(|(value, shown)| hidden_values(value, shown))
                .sum()
        }
        _ => usize::from(*shown == HIDDEN && value != shown),
    }
}

/// The number of items of a list that are hidden.
fn hidden_items(all: &[Value], shown: &[Value]) -> usize {
    let pairs = all.iter().zip(shown);
    pairs
        .filter(|(one, shown)| *shown == HIDDEN && one != shown)
        .count()
}

fn unseen(place: &str) -> String {
    let place = visible(&truncate(place, MAX_PLACE_CHARS));
    format!(
        "a part of `{place}` looks like a secret, which is not shown, and it is more than a token of letters, digits \
         and {TOKEN_PUNCTUATION}, at most {MAX_HIDDEN_CHARS} characters: pass it by a reference instead"
    )
}

/// Returns `redacted` with the lengths of what it hides of `text`. `None` if a hidden part is not a plain token, or
/// `redacted` is not this text with hidden parts.
fn counted(text: &str, redacted: &str) -> Option<String> {
    let mut parts = redacted.split(HIDDEN).peekable();
    let mut out = parts.next()?.to_owned();
    let mut rest = text.strip_prefix(&*out)?;
    while let Some(part) = parts.next() {
        // Whatever the redactor has meant to hide: the text is these parts with plain tokens in between.
        let end = match parts.peek() {
            None => rest.len().checked_sub(part.len())?,
            Some(_) => rest.find(part).filter(|_| !part.is_empty())?,
        };
        let (hidden, after) = rest.split_at_checked(end)?;
        rest = after.strip_prefix(part)?;
        let length = hidden.chars().count();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || TOKEN_PUNCTUATION.contains(c);
        match hidden {
            // The caller has written this.
            HIDDEN => out.push_str(HIDDEN),
            _ if length > 0 && length <= MAX_HIDDEN_CHARS && hidden.chars().all(is_plain) => {
                out.push_str(&format!("{HIDDEN} ({length} characters are hidden)"));
            }
            _ => return None,
        }
        out.push_str(part);
    }
    Some(out)
}

/// The arguments as text. `None` if the names alone are too long.
fn shown(arguments: &Value) -> Option<String> {
    let whole = pretty(arguments);
    if whole.chars().count() <= MAX_SHOWN_CHARS {
        return Some(whole);
    }
    let Value::Object(members) = arguments else {
        return Some(cut(&whole, MAX_SHOWN_CHARS - MAX_NOTE_CHARS));
    };
    let members = members.iter().map(|(name, value)| {
        let name = pretty(&Value::from(name.as_str()));
        (format!("  {name}: "), pretty(value).replace('\n', "\n  "))
    });
    let mut members: Vec<(String, String)> = members.collect();
    let names = members
        .iter()
        .map(|(name, _)| name.chars().count() + MAX_NOTE_CHARS);
    let room = MAX_SHOWN_CHARS.checked_sub(names.sum())?;
    // The room that short values leave is for the long ones.
    let lengths = members.iter().map(|(_, value)| value.chars().count());
    let lengths: Vec<usize> = lengths.collect();
    let fits = |max: &usize| lengths.iter().map(|length| length.min(max)).sum::<usize>() <= room;
    let max = (0..=room).rev().find(fits).unwrap_or_default();
    members
        .iter_mut()
        .for_each(|(_, value)| *value = cut(value, max));
    let lines: Vec<String> = members
        .into_iter()
        .map(|(name, value)| name + &value)
        .collect();
    Some(format!("{{\n{}\n}}", lines.join(",\n")))
}

fn pretty(value: &Value) -> String {
    // JSON writes line ends and other control characters of texts by their numbers; its own line ends stay.
    visible(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// The first characters of a text, and the number of the others.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => {
            let others = text[end..].chars().count();
            format!("{} … ({others} characters are not shown)", &text[..end])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: &str) -> Result<ShownArguments, String> {
        ShownArguments::read("b__x", json)
    }

    #[test]
    fn arguments_that_a_person_cannot_see_as_the_backend_does_are_refused() {
        for json in [
            r#"{"container": "prod", "container": "web-1"}"#,
            r#"{"container": "prod", "Container": "web-1"}"#,
            r#"{"a": {"container": "prod", "container": "web-1"}}"#,
            r#"{"a": 1e999}"#,
            r#"{"a": "\ud800"}"#,
            r#"{"a": 12345678901234567890}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    /// Each text is shown with all that the backend gets, or refused.
    #[test]
    fn what_is_shown_is_what_runs() {
        let token = "a".repeat(MAX_HIDDEN_CHARS);
        let read_one = |name: &str, text: &str| read(&json!({name: text}).to_string());
        let hidden = |length: usize| format!("*** ({length} characters are hidden)");
        let (two, six) = (hidden(2), hidden(6));
        for (name, text, expected) in [
            ("command", "ls", "ls"),
            ("command", "a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("command", "a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("command", "a\u{e0041}\u{fe0f}", "a\\u{e0041}\\u{fe0f}"),
            ("command", "\u{1b}[2Kb\rc\n", "\\u001b[2Kb\\rc\\n"),
            ("command", "a\u{9b}d\u{7f}", "a\\u{9b}d\\u{7f}"),
            (
                "command",
                "a\u{a0}\u{2003}\u{3000}",
                "a\\u{a0}\\u{2003}\\u{3000}",
            ),
            ("command", "\\u{202e}", "\\\\u{202e}"),
            ("command", "***", "***"),
            ("password", "Hunter-2!", &hidden(9)),
            ("password", &token, &hidden(MAX_HIDDEN_CHARS)),
            (
                "command",
                "run token=abc123 -a",
                &format!("run token={six} -a"),
            ),
            (
                "command",
                "a token=abc123 b token=x9 c",
                &format!("a token={six} b token={two} c"),
            ),
        ] {
            let shown = read_one(name, text).map(|shown| shown.text);
            let expected = format!("{{\n  \"{name}\": \"{expected}\"\n}}");
            assert_eq!(shown, Ok(expected), "{text:?}");
        }
        for (name, text) in [
            ("password", "$(rm -rf /)"),
            ("password", "a b"),
            ("password", "a;b"),
            ("password", "a|b"),
            ("password", "`id`"),
            ("password", "a\nb"),
            ("password", "a\u{202e}b"),
            ("password", "gel\u{f6}scht"),
            ("password", &format!("{token}a")),
            ("command", "token=`rm -rf /srv/data`; echo done"),
            ("command", "curl -H 'Cookie: a=b; rm -rf /'"),
            ("command", "-----BEGIN PRIVATE KEY-----\nrm -rf /"),
            ("command", "\u{202e}token=abc123"),
            ("command", r#"{"password": "$(id)", "a": 1}"#),
        ] {
            let reason = read_one(name, text).unwrap_err();
            assert!(reason.contains(&format!("`{name}`")), "{text:?} {reason}");
        }
        for json in [
            r#"{"password": ["rm", "-rf"]}"#,
            r#"{"password": [["rm"], ["-rf"]]}"#,
            r#"{"password": {"0": "rm", "1": "-rf"}}"#,
            r#"{"env": {"TOKEN": {"a": ["rm", "-rf"]}}}"#,
            r#"{"name": "PASSWORD", "value": {"0": "rm", "1": "-rf"}}"#,
            r#"{"args": ["--password", {"0": "rm", "1": "-rf"}]}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
        for (json, expected) in [
            (
                r#"{"pin": 4711}"#,
                format!("{{\n  \"pin\": \"{}\"\n}}", hidden(4)),
            ),
            (
                r#"{"password": {"x": "abc"}}"#,
                format!(
                    "{{\n  \"password\": {{\n    \"x\": \"{}\"\n  }}\n}}",
                    hidden(3)
                ),
            ),
        ] {
            assert_eq!(read(json).map(|shown| shown.text), Ok(expected), "{json}");
        }
        // Several secrets have their own names.
        assert!(read(r#"{"env": {"TOKEN": "a", "PASSWORD": "b"}}"#).is_ok());
        // At any depth, and in names.
        let reason = read(r#"{"a": [{"password": "x y"}]}"#).unwrap_err();
        assert!(reason.contains("`a.0.password`"), "{reason}");
        let shown = read(&json!({"a\u{200b}": {"b\u{e0041}": 1}}).to_string()).unwrap();
        assert_eq!(
            shown.text,
            "{\n  \"a\\u{200b}\": {\n    \"b\\u{e0041}\": 1\n  }\n}"
        );
    }

    #[test]
    fn each_name_is_shown_and_the_rest_of_long_values_is_counted() {
        let filler = "x".repeat(9_000);
        let shown =
            read(&json!({"a": filler, "b": [filler], "force": true, "z": "prod"}).to_string());
        let text = shown.unwrap().text;
        assert!(text.chars().count() <= MAX_SHOWN_CHARS, "{}", text.len());
        for expected in [
            "\"a\": \"xxx",
            "\"b\": [",
            "characters are not shown)",
            "\"force\": true",
            "\"z\": \"prod\"",
        ] {
            assert!(text.contains(expected), "{expected} {text}");
        }
        let short = read(r#"{"name": "Ada"}"#).unwrap().text;
        assert_eq!(short, "{\n  \"name\": \"Ada\"\n}");
    }

    #[test]
    fn arguments_whose_names_do_not_fit_are_refused() {
        let names: serde_json::Map<String, Value> = (0..200)
            .map(|at| (format!("name-{at}"), json!("a value of some length")))
            .collect();
        assert!(read(&Value::from(names).to_string()).is_err());
        assert!(read(&json!({"x".repeat(5_000): 1}).to_string()).is_err());
    }

    #[test]
    fn hash_is_that_of_the_values() {
        let hash = |json| read(json).unwrap().hash;
        let one = hash(r#"{"a": 1, "b": {"c": "x", "d": [1, 2]}}"#);
        assert_eq!(one, hash(r#"{"b":{"d":[1,2],"c":"\u0078"},"a":1}"#));
        assert_ne!(one, hash(r#"{"b":{"d":[2,1],"c":"x"},"a":1}"#));
    }
}
