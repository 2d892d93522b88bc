//! A JSON object whose members keep the bytes that they were read from.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer as _, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::string::push_quoted;

/// The members of an object, in their order, each as its original JSON text.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Names, without quotes and escapes, and values, in one allocation. Replaced and removed
    /// members stay in it, unused.
    text: String,
    members: Vec<Member>,
}

/// The positions of a member in the text.
#[derive(Clone, Debug)]
struct Member {
    name: Range<usize>,
    value: Range<usize>,
}

impl Members {
    /// Parses `object`; `None` if it is not a JSON object.
    pub fn read(object: &str) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(object);
        let mut read = Self {
            text: String::with_capacity(object.len()),
            // As many as a usual result has.
            members: Vec::with_capacity(6),
        };
        json.deserialize_map(Reader(&mut read)).ok()?;
        json.end().ok()?;
        Some(read)
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
        let Self { text, members } = self;
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
        let mut object = String::with_capacity(self.size() + 2);
        object.push('{');
        write(self.iter(), &mut object);
        object.push('}');
        object
    }

    /// The object with the member `name` set to this JSON, in its place or at the end, or without that
    /// member. Duplicates of it are removed.
    pub fn encode_with(&self, name: &str, json: Option<&str>) -> String {
        let room = name.len() + json.map_or(0, str::len) + 6;
        let mut object = String::with_capacity(self.size() + room);
        object.push('{');
        let first = self.position(name);
        let others = self.iter().enumerate().map(|(at, (key, old))| match key {
            key if key != name => (key, Some(old)),
            key => (key, json.filter(|_| first == Some(at))),
        });
        let members = others.chain(first.is_none().then_some((name, json)));
        let members = members.filter_map(|(key, json)| Some((key, json?)));
        write(members, &mut object);
        object.push('}');
        object
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

/// Reads the members of an object.
struct Reader<'a>(&'a mut Members);

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(read) = self;
        while let Some(name) = map.next_key_seed(Name(read))? {
            let value = read.keep(map.next_value::<&RawValue>()?.get());
            read.members.push(Member { name, value });
        }
        Ok(())
    }
}

/// Reads the name of a member.
struct Name<'a>(&'a mut Members);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Range<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, name: D) -> Result<Range<usize>, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Range<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Range<usize>, E> {
        Ok(self.0.keep(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_bytes() {
        let text = r#"{"a":123456789012345678901234567890,"b":[1e400, 1.0],"c\"":{"x" : null}}"#;
        let members = Members::read(text).unwrap();
        assert_eq!(members.encode(), text);
        assert_eq!(members.get("c\""), Some(r#"{"x" : null}"#));
        let spaced = " { \"a\" : [ 1 ] } \n";
        assert_eq!(Members::read(spaced).unwrap().inner(), r#""a":[ 1 ]"#);
        for bad in ["[]", "null", "{", r#"{"a":1}{"#, r#"{"a":}"#] {
            assert!(Members::read(bad).is_none(), "{bad}");
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
