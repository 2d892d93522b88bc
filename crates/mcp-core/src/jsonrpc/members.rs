//! An object whose members are passed on as they came.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The members of an object, in their order, each as the JSON that it was written as.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Those of `object`; `None` if it is no object.
    pub fn read(object: &RawValue) -> Option<Self> {
        serde_json::from_str(object.get()).ok()
    }

    /// The member `name`.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }

    /// Sets the member `name`, in its place or at the end.
    pub fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes the member `name` out.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), &**value))
    }

    /// The object.
    pub fn encode(&self) -> String {
        let mut object = String::with_capacity(self.size() + 2);
        object.push('{');
        self.write(&mut object);
        object.push('}');
        object
    }

    /// The object in which the member `name` is this JSON, in its place or at the end, or is left out.
    pub fn encode_with(&self, name: &str, value: Option<&str>) -> String {
        let room = name.len() + value.map_or(0, str::len) + 6;
        let mut object = String::with_capacity(self.size() + room);
        object.push('{');
        let is_new = self.get(name).is_none();
        let new = is_new.then_some((name, value));
        let others = self.iter().map(|(key, old)| match key == name {
            true => (key, value),
            false => (key, Some(old.get())),
        });
        let members = others.chain(new);
        write(
            members.filter_map(|(key, value)| Some((key, value?))),
            &mut object,
        );
        object.push('}');
        object
    }

    /// What stands between its braces.
    pub fn inner(&self) -> String {
        let mut inner = String::with_capacity(self.size());
        self.write(&mut inner);
        inner
    }

    fn write(&self, out: &mut String) {
        write(self.iter().map(|(key, value)| (key, value.get())), out);
    }

    /// Bytes between its braces; a few more where a name has escapes.
    fn size(&self) -> usize {
        let size = |(key, value): &(String, Box<RawValue>)| key.len() + value.get().len() + 4;
        self.0.iter().map(size).sum()
    }
}

fn write<'a>(members: impl Iterator<Item = (&'a str, &'a str)>, out: &mut String) {
    for (at, (key, value)) in members.enumerate() {
        if at > 0 {
            out.push(',');
        }
        let is_odd = |byte| matches!(byte, b'"' | b'\\' | ..b' ');
        if key.bytes().any(is_odd) {
            out.push_str(&serde_json::Value::from(key).to_string());
        } else {
            out.extend(["\"", key, "\""]);
        }
        out.push(':');
        out.push_str(value);
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                // A result has about as many.
                let mut members = Vec::<(String, Box<RawValue>)>::with_capacity(6);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_as_they_were_written() {
        let text = r#"{"a":123456789012345678901234567890,"b":[1e400, 1.0],"c\"":{"x" : null}}"#;
        let members: Members = serde_json::from_str(text).unwrap();
        assert_eq!(members.encode(), text);
        assert!(serde_json::from_str::<Members>("[]").is_err());
    }

    #[test]
    fn members_can_be_changed() {
        let mut members: Members = serde_json::from_str(r#"{"a":1,"b":2}"#).unwrap();
        members.set("a", RawValue::from_string("3".to_owned()).unwrap());
        assert!(members.remove("b").is_some());
        members.set("c", RawValue::from_string("4".to_owned()).unwrap());
        assert_eq!(members.encode(), r#"{"a":3,"c":4}"#);
        assert_eq!(members.encode_with("a", Some("5")), r#"{"a":5,"c":4}"#);
        assert_eq!(
            members.encode_with("d", Some("6")),
            r#"{"a":3,"c":4,"d":6}"#
        );
        assert_eq!(members.encode_with("a", None), r#"{"c":4}"#);
    }
}
