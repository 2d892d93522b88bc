//! A JSON object whose members keep the bytes that they were read from.

use std::ops::Range;

use super::extent::MemberPlaces;
use super::nesting::MAX_NESTING;
use super::string::{push_quoted, string};

/// The members of an object, in their order, each as its original JSON text.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// The object as it was read, and behind it what was added: values, and names without escapes. Replaced and
    /// removed members stay in it, unused.
    text: String,
    members: Vec<Member>,
    /// The levels of the object as it was read.
    depth: usize,
}

/// The positions of a member in the text.
#[derive(Clone, Debug)]
struct Member {
    name: Range<usize>,
    value: Range<usize>,
}

impl Members {
    /// Reads the members of `object`, which was checked before: a part of a message that was decoded. `None` if it is
    /// not a JSON object. The values of one that is not JSON may be any parts of it.
    pub fn read(object: &str) -> Option<Self> {
        Self::take(object.to_owned())
    }

    /// The same for an object that is not needed elsewhere: it is not copied.
    pub fn take(mut object: String) -> Option<Self> {
        // As many as a usual result has.
        let mut members = Vec::with_capacity(6);
        let mut names = String::new();
        let mut places = MemberPlaces::new(&object)?;
        for (name, value) in places.by_ref() {
            let quoted = &object[name.clone()];
            let name = match quoted.contains('\\') {
                true => {
                    let start = object.len() + names.len();
                    names.push_str(&string(quoted)?);
                    start..object.len() + names.len()
                }
                false => name.start + 1..name.end - 1,
            };
            members.push(Member { name, value });
        }
        if !places.are_complete() {
            return None;
        }
        let depth = places.depth();
        object.push_str(&names);
        Some(Self {
            text: object,
            members,
            depth,
        })
    }

    /// True if the object, as it was read, is nested deeper than [`MAX_NESTING`].
    pub fn is_too_deep(&self) -> bool {
        self.depth > MAX_NESTING
    }

    /// The JSON of the member `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut members = self.iter();
        members.find(|(key, _)| *key == name).map(|(_, json)| json)
    }

    /// Sets the member `name` to this JSON, in its place or at the end.
    pub fn set(&mut self, name: &str, json: &str) {
        match self.position(name) {
            Some(at) if &self.text[self.members[at].value.clone()] == json => {}
            Some(at) => self.members[at].value = self.keep(json),
            None => {
                let (name, value) = (self.keep(name), self.keep(json));
                self.members.push(Member { name, value });
            }
        }
    }

    /// Removes the member `name`, and duplicates of it.
    pub fn remove(&mut self, name: &str) {
        let Self { text, members, .. } = self;
        members.retain(|member| text[member.name.clone()] != *name);
    }

    /// True if the object has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The names and JSON of all members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |range: &Range<usize>| &self.text[range.clone()];
        self.members
            .iter()
            .map(move |member| (text(&member.name), text(&member.value)))
    }

    /// The object.
    pub fn encode(&self) -> String {
        self.encode_with_room(0)
    }

    /// The same, with room for so many more bytes.
    pub fn encode_with_room(&self, room: usize) -> String {
        let mut object = String::with_capacity(self.size() + 2 + room);
        object.push('{');
        write(self.iter(), &mut object);
        object.push('}');
        object
    }

    /// The object with the member `name` set to this JSON, in its place or at the end, or without that
    /// member. Duplicates of it are removed.
    pub fn encode_with(&self, name: &str, json: Option<&str>) -> String {
        let mut object = String::new();
        self.push_with(name, json, &mut object);
        object
    }

    /// Adds that object to `out`.
    pub fn push_with(&self, name: &str, json: Option<&str>, out: &mut String) {
        out.reserve(self.size() + name.len() + json.map_or(0, str::len) + 6);
        out.push('{');
        let first = self.position(name);
        let others = self.iter().enumerate().map(|(at, (key, old))| match key {
            key if key != name => (key, Some(old)),
            key => (key, json.filter(|_| first == Some(at))),
        });
        let members = others.chain(first.is_none().then_some((name, json)));
        let members = members.filter_map(|(key, json)| Some((key, json?)));
        write(members, out);
        out.push('}');
    }

    /// The object without its braces.
    pub fn inner(&self) -> String {
        let mut inner = String::with_capacity(self.size());
        write(self.iter(), &mut inner);
        inner
    }

    /// The bytes between its braces; a few more if a name has escapes.
    fn size(&self) -> usize {
        let size = |member: &Member| member.name.len() + member.value.len() + 4;
        self.members.iter().map(size).sum()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.iter().position(|(key, _)| key == name)
    }

    fn keep(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }
}

fn write<'a>(members: impl Iterator<Item = (&'a str, &'a str)>, out: &mut String) {
    for (at, (key, value)) in members.enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_quoted(out, key);
        out.push(':');
        out.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn members_keep_their_bytes() {
        let text = r#"{"a":123456789012345678901234567890,"b":[1e400, 1.0],"c\"":{"x" : null}}"#;
        let members = Members::read(text).unwrap();
        assert_eq!(members.encode(), text);
        assert_eq!(members.get("c\""), Some(r#"{"x" : null}"#));
        let spaced = " { \"a\" : [ 1 ] } \n";
        assert_eq!(Members::read(spaced).unwrap().inner(), r#""a":[ 1 ]"#);
        let text = r#"{"a":"\"}","b":{"c":["]",{}]},"d":-1.5e3,"e":[ ]}"#;
        assert_eq!(Members::read(text).unwrap().encode(), text);
        let ends = [
            "",
            "{",
            r#"{""#,
            r#"{"a"#,
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":1"#,
            r#"{"a":1,"#,
        ];
        let faults = [
            r#"{"a":1}{"#,
            r#"{"a":}"#,
            "{,}",
            "{a:1}",
            r#"{"a":1 "b":2}"#,
        ];
        for bad in ["[]", "null"].iter().chain(&ends).chain(&faults) {
            assert!(Members::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn members_are_those_that_a_parser_finds() {
        const LETTERS: [char; 10] = ['{', '}', '[', ']', '"', ':', ',', '\\', '1', 'ä'];
        let mut count = 0;
        for number in 0..LETTERS.len().pow(5) {
            let letter = |place| LETTERS[number / LETTERS.len().pow(place) % LETTERS.len()];
            let inner: String = (0..5).map(letter).collect();
            for text in [format!("{{{inner}}}"), format!(r#"{{"":{inner},"a":1}}"#)] {
                // Other text has no members that mean anything, but must not panic.
                let read = Members::read(&text);
                let parsed: Result<BTreeMap<String, Box<RawValue>>, _> =
                    serde_json::from_str(&text);
                let Ok(parsed) = parsed else { continue };
                let read = read.unwrap();
                assert_eq!(read.iter().count(), parsed.len(), "{text}");
                for (name, value) in parsed {
                    assert_eq!(read.get(&name), Some(value.get()), "{text}");
                }
                count += 1;
            }
        }
        assert!(count > 100, "{count}");
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
    }

    #[test]
    fn same_value_takes_no_more_memory() {
        let mut members = Members::read(r#"{"a":1}"#).unwrap();
        let before = members.text.len();
        members.set("a", "1");
        assert_eq!(members.text.len(), before);
    }

    #[test]
    fn objects_are_encoded_with_one_allocation() {
        let value = "1".repeat(100);
        let text = format!(r#"{{"a":{value},"long name":{value},"c":{value}}}"#);
        let members = Members::read(&text).unwrap();
        for object in [
            members.encode(),
            members.inner(),
            members.encode_with("longer name", Some(&value)),
        ] {
            assert!(object.capacity() - object.len() < 8, "{object}");
        }
    }

    #[test]
    fn object_without_members_is_empty() {
        let mut members = Members::read("{}").unwrap();
        assert!(members.is_empty());
        members.set("a", "1");
        assert!(!members.is_empty());
        members.remove("a");
        assert_eq!(members.encode(), "{}");
    }
}
