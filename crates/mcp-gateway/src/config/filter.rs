//! Allow and deny rules for a backend's items: tools and prompts by name, resources by URI.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use wildmatch::WildMatch;

/// Allow and deny patterns: `*` stands for any text, `?` for one character; case-sensitive.
///
/// Deny patterns win. Without allow patterns everything is allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    allow: Vec<WildMatch>,
    deny: Vec<WildMatch>,
}

impl Filter {
    pub(crate) fn new(allow: &[String], deny: &[String]) -> Self {
        let patterns = |list: &[String]| list.iter().map(|text| WildMatch::new(text)).collect();
        Self {
            allow: patterns(allow),
            deny: patterns(deny),
        }
    }

    /// Returns true if an item with this name or URI in the backend's list is published.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let is_allowed = self.allow.iter().any(|pattern| pattern.matches(name));
        !self.denies(name) && (self.allow.is_empty() || is_allowed)
    }

    /// Returns true if a deny pattern matches a URI in one of its spellings.
    pub(crate) fn denies_uri(&self, uri: &str) -> bool {
        uri_spellings(uri).iter().any(|uri| self.denies(uri))
    }

    /// Returns true if a deny pattern matches.
    fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns a URI as it is, and decoded if it has characters that are percent-encoded: a server may take both for
/// the same resource.
pub(crate) fn uri_spellings(uri: &str) -> Vec<Cow<'_, str>> {
    let mut spellings = vec![Cow::Borrowed(uri)];
    // Some servers decode twice. Deeper ones are not known.
    for _ in 0..3 {
        let last = spellings[spellings.len() - 1].as_bytes();
        let decoded: Vec<u8> = percent_decode(last).collect();
        if decoded == last {
            break;
        }
        let decoded = String::from_utf8_lossy(&decoded).into_owned();
        spellings.push(Cow::Owned(decoded));
    }
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allow: &[&str], deny: &[&str]) -> Filter {
        let owned =
            |list: &[&str]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        Filter::new(&owned(allow), &owned(deny))
    }

    #[test]
    fn deny_wins_and_no_allow_means_all() {
        assert!(filter(&[], &[]).allows("x"));
        assert!(!filter(&["x"], &["x"]).allows("x"));
        let filter = filter(&["list_*", "get_?"], &["*_secret*"]);
        for (name, allowed) in [
            ("list_containers", true),
            ("list_", true),
            ("List_containers", false),
            ("get_a", true),
            ("get_ab", false),
            ("list_secrets", false),
            ("xlist_a", false),
        ] {
            assert_eq!(filter.allows(name), allowed, "{name}");
        }
    }

    #[test]
    fn many_wildcards_are_fast() {
        let long = "*a".repeat(200) + "b";
        for (pattern, name, allowed) in [
            (&*long, &*"a".repeat(10_000), false),
            ("**a*?*b", "xaxyb", true),
            ("*a*b?", "ab", false),
            ("ä?", "äö", true),
        ] {
            assert_eq!(filter(&[pattern], &[]).allows(name), allowed, "{pattern}");
        }
    }
}
