//! The identifier check between a caller and the engine's URL paths.

mod image;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A name or an id of an object of the engine.
///
/// bollard pastes identifiers into URL paths as they are: `../volumes/x` would reach another
/// endpoint and `?` would add parameters. Every identifier that comes from a caller has this type,
/// so that one that could change a path cannot be expressed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name<K>(String, PhantomData<K>);

/// A container's name, id, or the beginning of its id: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, at most 128
/// characters. One leading `/` is taken off, because the engine itself prints names that way.
pub type ContainerName = Name<Container>;

/// A network's name or id, or a volume's name: as that of a container, at most 255 characters.
pub type ObjectName = Name<Object>;

/// An image's name with an optional registry, tag and digest, or its id:
/// `[registry[:port]/]path[:tag][@sha256:digest]` and `sha256:digest`.
pub type ImageName = Name<image::Image>;

/// A kind of objects, with what their identifiers look like.
pub trait NameKind {
    /// Says what an identifier looks like, to a caller whose text is none.
    const EXPECTED: &'static str;

    /// The identifier in a text, if it is one.
    fn check(text: &str) -> Option<&str>;
}

/// Containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Container {}

impl NameKind for Container {
    const EXPECTED: &'static str = "not a container name or id: it starts with a letter or digit, \
        goes on with letters, digits, `_`, `.` or `-`, and has at most 128 characters; \
        list_containers shows them";

    fn check(text: &str) -> Option<&str> {
        let name = text.strip_prefix('/').unwrap_or(text);
        is_plain(name, 128).then_some(name)
    }
}

/// Networks and volumes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {}

impl NameKind for Object {
    const EXPECTED: &'static str = "not a name: it starts with a letter or digit, goes on with \
        letters, digits, `_`, `.` or `-`, and has at most 255 characters";

    fn check(text: &str) -> Option<&str> {
        is_plain(text, 255).then_some(text)
    }
}

/// Why a string is no name. Does not repeat the string: it may be long or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidName(&'static str);

impl<K: NameKind> Name<K> {
    /// Checks a text.
    /// Errors when it is no identifier of this kind.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        K::check(text)
            .map(|name| Self(name.to_owned(), PhantomData))
            .ok_or(InvalidName(K::EXPECTED))
    }
}

impl<K> Name<K> {
    /// The identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<K> fmt::Display for Name<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<K> Serialize for Name<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, K: NameKind> Deserialize<'de> for Name<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

impl<K> JsonSchema for Name<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // No `pattern`: it costs tokens on every turn, and the refusal says the same in words.
        json_schema!({"type": "string"})
    }
}

/// Whether `name` is made of what cannot change a path.
fn is_plain(name: &str, max_len: usize) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    starts && name.len() <= max_len && name.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_pass() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        let long = "x".repeat(128);
        for name in ["web", "demo-web-1", "a", "0", "db_1.old", id, &long] {
            assert_eq!(ContainerName::new(name).unwrap().as_str(), name);
            assert_eq!(ObjectName::new(name).unwrap().as_str(), name);
        }
        assert_eq!(ContainerName::new("/web").unwrap().as_str(), "web");
        assert!(ObjectName::new("/web").is_err());
    }

    #[test]
    fn what_could_change_a_path_does_not() {
        let long = "x".repeat(129);
        let plain =
            "/ //web . .. ../volumes/x %2e%2e/x a/b a?b a#b a;b a\\b -a _a a%2f ä a\u{202e}b";
        let hostile = plain.split(' ').chain(["", "a b", "a\n", "a\0", &long]);
        for name in hostile {
            let error = ContainerName::new(name).unwrap_err();
            assert_eq!(error, InvalidName(Container::EXPECTED), "{name:?}");
            assert!(ObjectName::new(name).is_err() || name == long);
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_the_name() {
        let error = serde_json::from_str::<ContainerName>("\"../volumes/x\"").unwrap_err();
        assert!(error.to_string().starts_with("not a container name or id"));
        assert!(!error.to_string().contains("volumes"));
    }
}
