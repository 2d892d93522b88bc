//! The short name of a backend, which stands before the names of its tools.

use std::fmt;
use std::sync::Arc;

/// Longer keys would leave too little of a tool's own name.
const MAX_LEN: usize = 20;

/// The key of a backend: `^[a-z][a-z0-9-]{0,19}$`.
///
/// No underscore, so that `KEY__` starts the names of one backend only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendKey(Arc<str>);

impl BackendKey {
    /// A key, if `text` is one.
    ///
    /// # Errors
    /// What a key has to look like.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut letters = text.bytes();
        let starts = letters
            .next()
            .is_some_and(|first| first.is_ascii_lowercase());
        let legal =
            |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        if starts && letters.all(legal) && text.len() <= MAX_LEN {
            Ok(Self(text.into()))
        } else {
            Err(
                "the name of a backend starts with a-z and has at most 20 characters of a-z, 0-9 and -",
            )
        }
    }

    /// The key that comes closest to a name of another configuration: `My Server_2` → `my-server-2`.
    /// `None` where nothing legible is left.
    pub(super) fn nearest(name: &str) -> Option<Self> {
        let mut text = String::new();
        for letter in name.chars().map(|letter| letter.to_ascii_lowercase()) {
            match letter {
                'a'..='z' => text.push(letter),
                '0'..='9' if !text.is_empty() => text.push(letter),
                _ if !text.is_empty() && !text.ends_with('-') => text.push('-'),
                _ => {}
            }
        }
        text.truncate(MAX_LEN);
        Self::parse(text.trim_end_matches('-')).ok()
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, to be shared with events.
    pub(crate) fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_has_no_underscore() {
        for good in ["n8n", "a", "my-server-2", "abcdefghijklmnopqrst"] {
            assert_eq!(BackendKey::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "2n",
            "-a",
            "A",
            "a_b",
            "a.b",
            "a:b",
            "ä",
            "abcdefghijklmnopqrstu",
            "a\n",
        ] {
            assert!(BackendKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn other_names_have_a_nearest_key() {
        for (name, key) in [
            ("My Server_2", "my-server-2"),
            ("github", "github"),
            ("@scope/server-everything", "scope-server-everyth"),
            ("42 tools", "tools"),
            ("__x__", "x"),
        ] {
            assert_eq!(BackendKey::nearest(name).unwrap().as_str(), key);
        }
        assert_eq!(BackendKey::nearest("§42"), None);
    }
}
