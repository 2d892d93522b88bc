//! References to images.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::InvalidName;

/// Longest reference accepted, in bytes.
const MAX_LEN: usize = 400;

/// An image's name with an optional registry, tag and digest, or its id.
///
/// It goes into URL paths as it is, slashes included, so every part between slashes is checked: it
/// begins with a letter or digit, which `..` does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ImageName(String);

impl ImageName {
    /// Checks `name` against `[registry[:port]/]path[:tag][@sha256:digest]` and `sha256:digest`.
    ///
    /// # Errors
    /// When anything else is in it.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let (rest, digest) = match name.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (name, None),
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
            digest
                .split_once(':')
                .is_some_and(|(kind, hex)| is_word(kind) && is_hex(hex))
        });
        (legal && digest_is_legal && name.len() <= MAX_LEN)
            .then(|| Self(name.to_owned()))
            .ok_or(InvalidName::IMAGE)
    }

    /// The reference as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without a tag, and the tag; `latest` where it has neither tag nor digest.
    pub fn split(&self) -> (&str, &str) {
        if let Some((name, _)) = self.0.split_once('@') {
            // A digest stands for a tag where the engine takes both apart.
            return (name, &self.0[name.len() + 1..]);
        }
        let last = self.0.rfind('/').map_or(0, |slash| slash + 1);
        match self.0[last..].split_once(':') {
            Some((name, tag)) => (&self.0[..last + name.len()], tag),
            None => (&self.0, "latest"),
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

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ImageName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for ImageName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ImageName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_ids_pass() {
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
        let pinned = ImageName::new(&format!("a/b@sha256:{hex}")).unwrap();
        assert_eq!(pinned.split(), ("a/b", &*format!("sha256:{hex}")));
    }

    #[test]
    fn what_could_change_a_path_does_not() {
        for name in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "a/./b",
            "%2e%2e/x",
            "a?b",
            "a#b",
            "a b",
            "a\n",
            "a\0",
            "ä",
            "a:b:c",
            "a/b:c/d",
            "a@b",
            "a@sha256:zz",
            ":a",
            "a:",
            "-a",
            "a\\b",
            "a..b",
            "x/json?y",
        ] {
            assert!(ImageName::new(name).is_err(), "{name:?}");
        }
    }
}
