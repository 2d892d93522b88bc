//! The short name of a backend, which is the prefix of its tools' names.

use std::fmt;
use std::sync::Arc;

/// A longer prefix would leave too little room for the name of a tool.
const MAX_KEY_LEN: usize = 20;

/// The key of a backend: `^[a-z][a-z0-9-]{0,19}$`.
///
/// Without underscores, so that the prefix `KEY__` belongs to one backend only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendKey(Arc<str>);

impl BackendKey {
    /// # Errors
    /// The rule for keys, if `text` does not follow it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut letters = text.bytes();
        let first = letters.next().unwrap_or_default();
        let legal =
            |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        if first.is_ascii_lowercase() && letters.all(legal) && text.len() <= MAX_KEY_LEN {
            Ok(Self(text.into()))
        } else {
            Err(
                "the name of a backend must start with a-z and have at most 20 characters of a-z, 0-9 and -",
            )
        }
    }

    /// Converts a name of another host's configuration to a key: `My Server_2` → `my-server-2`.
    /// `None` if it has no letter.
    pub(crate) fn nearest(name: &str) -> Option<Self> {
        let mut text = String::new();
        for letter in name.chars().map(|letter| letter.to_ascii_lowercase()) {
            match letter {
                'a'..='z' => text.push(letter),
                '0'..='9' if !text.is_empty() => text.push(letter),
                _ if !text.is_empty() && !text.ends_with('-') => text.push('-'),
                _ => {}
            }
        }
        text.truncate(MAX_KEY_LEN);
        Self::parse(text.trim_end_matches('-')).ok()
    }

    /// Returns the key with a number at its end: `files-2`.
    pub(crate) fn numbered(&self, number: u32) -> Option<Self> {
        let end = format!("-{number}");
        let start = &self.0[..self.0.len().min(MAX_KEY_LEN - end.len())];
        Self::parse(&format!("{start}{end}")).ok()
    }

    /// Returns true if a tool with this name belongs to the backend, as far as its name shows.
    pub(crate) fn is_prefix_of(&self, tool: &str) -> bool {
        let item = tool.strip_prefix(self.as_str());
        item.is_some_and(|item| ["__", ":", "."].iter().any(|mark| item.starts_with(mark)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

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
    fn key_is_short_and_has_no_underscore() {
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
            "a\n",
            &"a".repeat(21),
        ] {
            assert!(BackendKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_of_other_hosts_become_keys() {
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
