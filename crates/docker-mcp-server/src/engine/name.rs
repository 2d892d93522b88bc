//! Identifiers that are safe to put into the engine's URL paths.

mod image;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A name or an id of an object of the engine.
///
/// bollard puts identifiers into URL paths unescaped: `../volumes/x` would reach another endpoint
/// and `?` would add parameters. Every identifier of a caller has this type, which cannot hold a text
/// that changes a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<K>(String, PhantomData<K>);

/// A container's name, id, or the beginning of its id: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, at most 128
/// characters. One leading `/` is removed, because the engine itself prints names that way.
pub(crate) type ContainerName = Name<ContainerSyntax>;

/// A network's name or id, or a volume's name: as that of a container, at most 255 characters.
pub(crate) type ObjectName = Name<ObjectSyntax>;

/// An image's name with an optional registry, tag and digest, or its id:
/// `[registry[:port]/]path[:tag][@sha256:digest]` and `sha256:digest`.
pub(crate) type ImageName = Name<image::ImageSyntax>;

/// The syntax of the identifiers of one kind of objects. Cannot be named outside of `engine`: only the syntaxes
/// of this module are safe in a path.
pub(crate) trait NameSyntax {
    /// The error text for an invalid identifier: describes a valid one.
    const EXPECTED: &'static str;

    /// Returns the identifier if `text` is valid.
    fn check(text: &str) -> Option<&str>;
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ContainerSyntax {}

impl NameSyntax for ContainerSyntax {
    const EXPECTED: &'static str = "not a container name or id: it starts with a letter or digit, \
        continues with letters, digits, `_`, `.` or `-`, and has at most 128 characters; \
        list_containers shows them";

    fn check(text: &str) -> Option<&str> {
        let name = text.strip_prefix('/').unwrap_or(text);
        is_plain(name, 128).then_some(name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectSyntax {}

impl NameSyntax for ObjectSyntax {
    const EXPECTED: &'static str = "not a name: it starts with a letter or digit, continues with \
        letters, digits, `_`, `.` or `-`, and has at most 255 characters";

    fn check(text: &str) -> Option<&str> {
        is_plain(text, 255).then_some(text)
    }
}

/// The reason why a string is not a name. Does not repeat the string: it may be long or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidName(&'static str);

impl<K: NameSyntax> Name<K> {
    /// Errors when `text` is not an identifier of this kind.
    pub(crate) fn new(text: &str) -> Result<Self, InvalidName> {
        K::check(text)
            .map(|name| Self(name.to_owned(), PhantomData))
            .ok_or(InvalidName(K::EXPECTED))
    }
}

impl<K> Name<K> {
    pub(crate) fn as_str(&self) -> &str {
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

impl std::error::Error for InvalidName {}

impl<K> Serialize for Name<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, K: NameSyntax> Deserialize<'de> for Name<K> {
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
        // No `pattern`: it costs tokens on every turn, and the error text says the same.
        json_schema!({"type": "string"})
    }
}

/// Returns true if `name` is safe as a path segment.
fn is_plain(name: &str, max_len: usize) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    starts && name.len() <= max_len && name.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_accepted() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        let [long, longest] = [128, 255].map(|count| "x".repeat(count));
        for name in ["web", "demo-web-1", "a", "0", "db_1.old", id, &long] {
            assert_eq!(ContainerName::new(name).unwrap().as_str(), name);
            assert_eq!(ObjectName::new(name).unwrap().as_str(), name);
        }
        assert!(ObjectName::new(&longest).is_ok());
        let name: ContainerName = serde_json::from_str("\"/web\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"web\"");
    }

    #[test]
    fn names_that_could_change_a_path_are_refused_and_not_repeated() {
        let [long, longest] = [129, 256].map(|count| "x".repeat(count));
        let hostile =
            "/ //web . .. ../volumes/x %2e%2e/x a/b a?b a#b a;b a\\b -a _a a%2f ä a\u{202e}b";
        for name in hostile.split(' ').chain(["", "a b", "a\n", "a\0", &long]) {
            let error = ContainerName::new(name).unwrap_err();
            assert_eq!(error, InvalidName(ContainerSyntax::EXPECTED), "{name:?}");
            assert!(ObjectName::new(name).is_err() || name == long);
        }
        assert!(ObjectName::new("/web").is_err() && ObjectName::new(&longest).is_err());
        let error = serde_json::from_str::<ContainerName>("\"../volumes/x\"").unwrap_err();
        assert!(!error.to_string().contains("volumes"), "{error}");
    }
}
