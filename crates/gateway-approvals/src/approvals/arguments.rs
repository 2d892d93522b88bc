//! The arguments of a call as people see them, and what identifies them.

use gateway_access::Arguments;
use hmac_sha256::Hash;
use serde_json::Value;
use serde_json::value::RawValue;
use upstream::redact::Redactor;
use upstream::text::clean;
use upstream::text::hexadecimal;

/// Limit for the characters that people see.
const MAX_SHOWN_CHARS: usize = 4_000;

/// Limit for the characters of a note about what is not shown.
const MAX_NOTE_CHARS: usize = 48;

/// The arguments of a call that a person decides about.
#[derive(Debug)]
pub(super) struct ShownArguments {
    /// Without secrets and hidden characters. Has each name; long values are cut.
    pub(super) text: String,
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
        // Refuses duplicate names and what not all servers read in the same way.
        Arguments::read(raw)?;
        let mut value: Value = serde_json::from_str(json).map_err(unreadable)?;
        value.sort_all_objects();
        let hash = hexadecimal(&Hash::hash(format!("{tool}\n{value}").as_bytes()));
        Redactor::new(true).json(&mut value);
        let text =
            shown(&value).ok_or("the arguments have too many or too long names to show them")?;
        Ok(Self { text, hash })
    }
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
    let mut room = MAX_SHOWN_CHARS.checked_sub(names.sum())?;
    // The room that short values leave is for the long ones.
    let mut lengths: Vec<usize> = members
        .iter()
        .map(|(_, value)| value.chars().count())
        .collect();
    lengths.sort_unstable();
    let mut max = 0;
    for (at, length) in lengths.iter().enumerate() {
        max = room / (lengths.len() - at);
        if *length > max {
            break;
        }
        room -= length;
        max = *length;
    }
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
    clean(&serde_json::to_string_pretty(value).unwrap_or_default()).into_owned()
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
