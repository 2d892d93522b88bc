//! JSON objects whose members keep the bytes that they were read from.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in their order, also those with the same name.
pub(crate) struct Entries<'a> {
    all: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// The first name that was asked for and that several members have.
    pub(crate) twice: Option<&'static str>,
}

impl<'a> Entries<'a> {
    /// Reads an object.
    pub(crate) fn read(object: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(object)
    }

    /// The value of the member `name`; the last one of those with this name.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        let mut named = self.all.iter().rev().filter(|(key, _)| key == name);
        let last = named.next().map(|(_, value)| *value);
        if named.next().is_some() {
            self.twice.get_or_insert(name);
        }
        last
    }

    /// The value of the member `name`, of which `null` counts as absent.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.raw(name).filter(|value| value.get() != "null")
    }
}

/// A name that is copied only if it has escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    all.push((name, value));
                }
                Ok(Entries { all, twice: None })
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Returns the JSON of the first member `name` of an object.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut members = members(object)?;
    members.find(|(key, _)| key == name).map(|(_, json)| json)
}

/// The names and the JSON of the members of an object; `None` if it is no object.
pub fn members(object: &str) -> Option<impl Iterator<Item = (Cow<'_, str>, &str)>> {
    let entries = Entries::read(object).ok()?.all.into_iter();
    Some(entries.map(|(name, value)| (name, value.get())))
}

/// The members of an object, in their order, each as its original JSON text.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, String)>);

impl Members {
    /// Reads the members of `object`. `None` if it is not a JSON object.
    pub fn read(object: &str) -> Option<Self> {
        let members = members(object)?.map(|(name, json)| (name.into_owned(), json.to_owned()));
        Some(Self(members.collect()))
    }

    /// The JSON of the member `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut members = self.iter();
        members.find(|(key, _)| *key == name).map(|(_, json)| json)
    }

    /// Sets the member `name` to this JSON, in its place or at the end.
    pub fn set(&mut self, name: &str, json: &str) {
        let mut members = self.0.iter_mut();
        match members.find(|(key, _)| key == name) {
            Some((_, value)) => json.clone_into(value),
            None => self.0.push((name.to_owned(), json.to_owned())),
        }
    }

    /// Removes the member `name`, and duplicates of it.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// True if the object has no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names and JSON of all members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, json)| (&**name, &**json))
    }

    /// The object.
    pub fn encode(&self) -> String {
        format!("{{{}}}", self.inner())
    }

    /// The object with the member `name` set to this JSON, in its place or at the end, or without that
    /// member. Duplicates of it are removed.
    pub fn encode_with(&self, name: &str, json: Option<&str>) -> String {
        let first = self.iter().position(|(key, _)| key == name);
        let others = self.iter().enumerate().map(|(at, (key, old))| match key {
            key if key != name => (key, Some(old)),
            key => (key, json.filter(|_| first == Some(at))),
        });
        let members = others.chain(first.is_none().then_some((name, json)));
        let members = members.filter_map(|(key, json)| Some((key, json?)));
        format!("{{{}}}", written(members))
    }

    /// The object without its braces.
    pub fn inner(&self) -> String {
        written(self.iter())
    }
}

fn written<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let members = members.map(|(key, value)| format!("{}:{value}", quoted(key)));
    members.collect::<Vec<_>>().join(",")
}

/// The text of a JSON string; `None` for other JSON.
pub fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The text as a JSON string.
pub fn quoted(text: &str) -> String {
    // A text always serialises.
    serde_json::to_string(text).unwrap_or_default()
}

/// Deepest nesting of what a gateway passes on. Deeper JSON kills clients and servers whose parsers recurse:
/// 1,000 levels are a `RecursionError` in Python.
pub const MAX_NESTING: usize = 64;

/// Returns true if valid JSON is nested deeper than [`MAX_NESTING`].
pub fn is_too_deep(json: &str) -> bool {
    depth(json) > MAX_NESTING
}

/// The levels of arrays and objects in valid JSON.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                // To the end of the string.
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => _ = bytes.next(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_bytes() {
        for text in [
            "{}",
            r#"{"a":123456789012345678901234567890,"b":[1e400, 1.0],"c\"":{"x" : null}}"#,
            r#"{"a":"\"}","b":{"c":["]",{}]},"d":-1.5e3,"e":[ ]}"#,
            r#"{"a":1,"b":2,"a":3}"#,
        ] {
            assert_eq!(Members::read(text).unwrap().encode(), text);
        }
        let spaced = " { \"a\" : [ 1 ] } \n";
        assert_eq!(Members::read(spaced).unwrap().inner(), r#""a":[ 1 ]"#);
        for bad in ["[]", "null", "", r#"{"a":1"#, r#"{"a":1}{"#, "{a:1}"] {
            assert!(Members::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn member_is_found_by_its_name() {
        let object = r#" { "a\"" : {"b":1}, "b" : [ 2 ] ,"c":"d", "\u0065":3} "#;
        for (name, value) in [
            ("a\"", Some(r#"{"b":1}"#)),
            ("b", Some("[ 2 ]")),
            ("c", Some(r#""d""#)),
            ("e", Some("3")),
            ("d", None),
        ] {
            assert_eq!(member(object, name), value, "{name}");
        }
        for none in ["{}", "[]", "", r#"["b"]"#, r#"{"a":{"b":1}}"#] {
            assert_eq!(member(none, "b"), None, "{none}");
        }
    }

    #[test]
    fn members_can_be_changed() {
        let mut members = Members::read(r#"{"a":1,"b":2}"#).unwrap();
        members.set("a", "3");
        members.remove("b");
        members.set("c", "4");
        members.set("c", "4");
        assert_eq!(members.encode(), r#"{"a":3,"c":4}"#);
        assert_eq!(members.encode_with("a", Some("5")), r#"{"a":5,"c":4}"#);
        let added = members.encode_with("d", Some("6"));
        assert_eq!(added, r#"{"a":3,"c":4,"d":6}"#);
        assert_eq!(members.encode_with("a", None), r#"{"c":4}"#);
        let mut twice = Members::read(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(twice.get("a"), Some("1"));
        assert_eq!(twice.encode_with("a", Some("4")), r#"{"a":4,"b":2}"#);
        assert_eq!(twice.encode_with("a", None), r#"{"b":2}"#);
        twice.remove("a");
        assert_eq!(twice.encode(), r#"{"b":2}"#);
        twice.remove("b");
        assert!(twice.is_empty());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(&nested(MAX_NESTING)));
        assert!(is_too_deep(&nested(MAX_NESTING + 1)));
        let object = |depth| format!(r#"{{"a":1,"b":{},"c":[2]}}"#, nested(depth));
        assert!(!is_too_deep(&object(MAX_NESTING - 1)));
        assert!(is_too_deep(&object(MAX_NESTING)));
        // More brackets than levels.
        let beside = format!("[[],{}]", nested(MAX_NESTING - 1));
        assert!(!is_too_deep(&beside));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
        assert!(is_too_deep(&objects));
    }

    #[test]
    fn breadth_and_text_are_not() {
        assert!(!is_too_deep(&format!("[{}]", "[],{},".repeat(1000))));
        let text = "[{".repeat(1000);
        assert!(!is_too_deep(&format!(r#"["{text}","\"{text}\\"]"#)));
    }
}
