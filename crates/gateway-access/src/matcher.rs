//! Patterns of rules.

use wildmatch::WildMatch;

/// A pattern, compiled. Nearly all are names, prefixes or suffixes, which are compared ten times as fast.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Matcher {
    Any,
    Name(Box<str>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Part(Box<str>),
    /// The text before the first wildcard, and the pattern.
    Other(Box<str>, WildMatch),
}

impl Matcher {
    pub(crate) fn new(pattern: &str) -> Self {
        let is_literal = |text: &str| !text.contains(['*', '?']);
        match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            _ if is_literal(pattern) => Self::Name(pattern.into()),
            (Some(""), _) => Self::Any,
            (_, Some(prefix)) if is_literal(prefix) => Self::Prefix(prefix.into()),
            (Some(suffix), _) if is_literal(suffix) => Self::Suffix(suffix.into()),
            (Some(rest), Some(_)) if is_literal(&rest[..rest.len() - 1]) => {
                Self::Part(rest[..rest.len() - 1].into())
            }
            _ => {
                let start = pattern.split(['*', '?']).next().unwrap_or_default();
                Self::Other(start.into(), WildMatch::new(pattern))
            }
        }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(own) => **own == *name,
            Self::Prefix(prefix) => name.starts_with(&**prefix),
            Self::Suffix(suffix) => name.ends_with(&**suffix),
            Self::Part(part) => name.contains(&**part),
            Self::Other(start, pattern) => name.starts_with(&**start) && pattern.matches(name),
        }
    }
}
