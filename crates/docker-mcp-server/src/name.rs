//! The identifier check between a caller and the engine's URL paths.

mod image;
mod object;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

pub use image::ImageName;
pub use object::ObjectName;

/// Longest name accepted, in bytes; a full id has 64.
const MAX_LEN: usize = 128;

/// A container's name, id, or the beginning of its id.
///
/// The engine's client pastes identifiers into URL paths as they are: `../volumes/x` would reach
/// another endpoint and `?` would add parameters. Every identifier that comes from a caller has
/// this type, so that one that could change a path cannot be expressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ContainerName(String);

/// Why a string is no name. Does not repeat the string: it may be long or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidName(&'static str);

impl InvalidName {
    const CONTAINER: Self = Self(
        "not a container name or id: it starts with a letter or digit, goes on with letters, \
         digits, `_`, `.` or `-`, and has at most 128 characters; list_containers shows them",
    );
    const OBJECT: Self = Self(
        "not a name: it starts with a letter or digit, goes on with letters, digits, `_`, `.` or \
         `-`, and has at most 255 characters",
    );
    const IMAGE: Self = Self(
        "not an image: write `name`, `name:tag`, `registry:port/path/name:tag` or an id; \
         list_images shows them",
    );
}

impl ContainerName {
    /// Checks `name` against `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, at most 128 characters. One leading `/`
    /// is taken off, because the engine itself prints names that way.
    ///
    /// # Errors
    /// When anything else is in it.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let name = name.strip_prefix('/').unwrap_or(name);
        is_plain(name, MAX_LEN)
            .then(|| Self(name.to_owned()))
            .ok_or(InvalidName::CONTAINER)
    }

    /// The name, without a leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether `name` is made of what cannot change a path.
fn is_plain(name: &str, max_len: usize) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    starts && name.len() <= max_len && name.chars().all(legal)
}

impl<'de> Deserialize<'de> for ContainerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for ContainerName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ContainerName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // No `pattern`: it costs tokens on every turn, and the refusal says the same in words.
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_pass() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        for name in [
            "web",
            "demo-web-1",
            "a",
            "0",
            "db_1.old",
            id,
            &"x".repeat(128),
        ] {
            assert_eq!(ContainerName::new(name).unwrap().as_str(), name);
        }
        assert_eq!(ContainerName::new("/web").unwrap().as_str(), "web");
    }

    #[test]
    fn what_could_change_a_path_does_not() {
        let long = "x".repeat(129);
        let hostile = [
            "",
            "/",
            "//web",
            ".",
            "..",
            "../volumes/x",
            "%2e%2e/x",
            "a/b",
            "a?b",
            "a#b",
            "a b",
            "a\n",
            "a\0",
            "ä",
            "a\u{202e}b",
            "a;b",
            "a\\b",
            "-a",
            "_a",
            "a%2f",
            &long,
        ];
        for name in hostile {
            assert_eq!(
                ContainerName::new(name),
                Err(InvalidName::CONTAINER),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_the_name() {
        let error = serde_json::from_str::<ContainerName>("\"../volumes/x\"").unwrap_err();
        assert!(error.to_string().starts_with("not a container name or id"));
        assert!(!error.to_string().contains("volumes"));
    }
}
