//! Identifiers that are safe to put into the engine's URL paths.

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};
use std::marker::PhantomData;
use std::ops::Deref;

use http::Uri;
use http::uri::PathAndQuery;
use mcp_core::tool::ToolError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::engine::error::EngineError;

/// A name or an id of an object of the engine.
///
/// Identifiers go into URL paths unescaped: `../volumes/x` would reach another endpoint
/// and `?` would add parameters. Every identifier of a caller has this type, which cannot hold a text
/// that changes a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<K>(String, PhantomData<K>);

/// No object: stands for the id of one that the engine has not described.
impl<K> Default for Name<K> {
    fn default() -> Self {
        Self("-".to_owned(), PhantomData)
    }
}

impl<K> Deref for Name<K> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A container's name, id, or the beginning of its id: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, at most 255
/// characters. One leading `/` is removed, because the engine itself prints names that way.
pub(crate) type ContainerName = Name<ContainerSyntax>;

/// A network's name or id, or a volume's name: as that of a container, at most 255 characters.
pub(crate) type ObjectName = Name<ObjectSyntax>;

/// An image's name with an optional registry, tag and digest, or its id:
/// `[registry[:port]/]path[:tag][@sha256:digest]` and `sha256:digest`.
pub(crate) type ImageName = Name<ImageSyntax>;

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
        continues with letters, digits, `_`, `.` or `-`, and has at most 255 characters; \
        list_containers shows them";

    fn check(text: &str) -> Option<&str> {
        let name = text.strip_prefix('/').unwrap_or(text);
        is_plain(name, 255).then_some(name)
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

impl<K: NameSyntax> Name<K> {
    /// Errors when `text` is not an identifier of this kind. Does not repeat it: it may be long or hostile.
    pub(crate) fn new(text: &str) -> Result<Self, ToolError> {
        K::check(text)
            .map(|name| Self(name.to_owned(), PhantomData))
            .ok_or_else(|| ToolError::invalid_argument(K::EXPECTED))
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

/// Longest reference accepted, in bytes.
const MAX_LEN: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImageSyntax {}

impl NameSyntax for ImageSyntax {
    const EXPECTED: &'static str = "not an image: write `name`, `name:tag`, \
        `registry:port/path/name:tag` or an id; list_images shows them";

    /// Checks every part between slashes, since a reference goes into URL paths unescaped, slashes
    /// included: each begins with a letter or digit, which `..` does not.
    fn check(text: &str) -> Option<&str> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let parts: Vec<&str> = rest.split('/').collect();
        let count = parts.len();
        let legal = parts.iter().enumerate().all(|(at, part)| {
            // A registry has a port, and only the last part has a tag.
            let may_have_colon = at + 1 == count || at == 0;
            match part.split_once(':') {
                Some((name, tag)) => may_have_colon && is_word(name) && is_word(tag),
                None => is_word(part),
            }
        });
        let digest_is_legal = digest.is_none_or(|digest| {
            let digest = digest.split_once(':');
            digest.is_some_and(|(kind, hex)| is_word(kind) && is_hex(hex))
        });
        (legal && digest_is_legal && text.len() <= MAX_LEN).then_some(text)
    }
}

impl ImageName {
    /// The name without a tag, and the tag; `latest` if it has neither tag nor digest.
    pub(crate) fn split(&self) -> (&str, &str) {
        let reference = self.as_str();
        if let Some((name, digest)) = reference.split_once('@') {
            // The engine accepts a digest in place of a tag.
            return (name, digest);
        }
        match reference.rsplit_once(':') {
            // Not the port of a registry.
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (reference, "latest"),
        }
    }
}

fn is_word(part: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part.chars().all(legal)
        && !part.contains("..")
}

fn is_hex(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A path of the engine: fixed words, checked names, and encoded values.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    text: String,
    has_query: bool,
}

impl Path {
    /// Starts a path with a fixed word: `/containers`.
    pub(crate) fn to(fixed: &'static str) -> Self {
        Self {
            text: fixed.to_owned(),
            has_query: false,
        }
    }

    /// The path of a container, or of what it has: `/json`.
    pub(crate) fn container(id: &ContainerName, fixed: &'static str) -> Self {
        Self::to("/containers").id(id).then(fixed)
    }

    /// Appends the identifier of an object.
    pub(crate) fn id(mut self, id: &Name<impl NameSyntax>) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "/{id}");
        self
    }

    /// Appends a fixed word: `/json`.
    pub(crate) fn then(mut self, fixed: &'static str) -> Self {
        self.text.push_str(fixed);
        self
    }

    /// Adds a parameter with any value, which is encoded.
    pub(crate) fn query(mut self, key: &'static str, value: impl Display) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(key);
        self.text.push('=');
        for byte in value.to_string().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    self.text.push(byte.into());
                }
                _ => {
                    let _ = write!(self.text, "%{byte:02X}");
                }
            }
        }
        self
    }

    pub(crate) fn into_uri(self) -> Result<Uri, EngineError> {
        let path = PathAndQuery::try_from(self.text);
        path.map(Uri::from).map_err(EngineError::unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_accepted() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        let longest = "x".repeat(255);
        for name in ["web", "demo-web-1", "a", "0", "db_1.old", id, &longest] {
            assert_eq!(ContainerName::new(name).unwrap().as_str(), name);
            assert_eq!(ObjectName::new(name).unwrap().as_str(), name);
        }
        let name: ContainerName = serde_json::from_str("\"/web\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"web\"");
    }

    #[test]
    fn references_and_ids_are_accepted() {
        let hex = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        let cases = [
            ("busybox", ("busybox", "latest")),
            ("busybox:1.36", ("busybox", "1.36")),
            ("library/busybox", ("library/busybox", "latest")),
            ("localhost:5000/a/b:c", ("localhost:5000/a/b", "c")),
            ("localhost:5000/a", ("localhost:5000/a", "latest")),
            ("f0badb8fffde", ("f0badb8fffde", "latest")),
        ];
        for (name, split) in cases {
            assert_eq!(ImageName::new(name).unwrap().split(), split);
        }
        assert!(ImageName::new(&format!("sha256:{hex}")).is_ok());
        assert!(ImageName::new(&format!("a@sha256:{}", &hex[..32])).is_ok());
        assert!(ImageName::new(&"a".repeat(MAX_LEN)).is_ok());
        let pinned = ImageName::new(&format!("a/b@sha256:{hex}")).unwrap();
        assert_eq!(pinned.split(), ("a/b", &*format!("sha256:{hex}")));
    }

    #[test]
    fn references_that_could_change_a_path_are_refused() {
        let hostile = "/ a/ /a a//b .. ../x a/../b a/.. a/./b %2e%2e/x a?b a#b ä a:b:c a/b:c/d a@b \
                       a@sha256:zz :a a: -a a\\b a..b x/json?y";
        let long = "a".repeat(MAX_LEN + 1);
        let hex = "0123456789abcdef0123456789abcde";
        let digests = [
            format!("a@sha256:{hex}"),
            format!("a@sha256:{hex}g"),
            format!("a@-x:{hex}f"),
            format!("a@:{hex}f"),
            format!("../x@sha256:{hex}f"),
            format!("a@sha256:{hex}f/../x"),
        ];
        let digests = digests.iter().map(String::as_str);
        let hostile = hostile.split(' ').chain(digests);
        for name in hostile.chain(["", "a b", "a\n", "a\0", &long]) {
            assert!(ImageName::new(name).is_err(), "{name:?}");
        }
    }
}
