//! Allow and deny rules for a backend's items: tools and prompts by name, resources by URI.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use url::Url;
use wildmatch::WildMatch;

/// Allow and deny patterns: `*` stands for any text, `?` for one character; case-sensitive.
///
/// Deny patterns win. Without allow patterns everything is allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    allow: Vec<WildMatch>,
    deny: Vec<WildMatch>,
}

impl Filter {
    /// A filter with these patterns.
    pub fn new(allow: &[String], deny: &[String]) -> Self {
        let patterns = |list: &[String]| list.iter().map(|text| WildMatch::new(text)).collect();
        Self {
            allow: patterns(allow),
            deny: patterns(deny),
        }
    }

    /// Returns true if an item with this name or URI in the backend's list is published.
    pub fn allows(&self, name: &str) -> bool {
        let is_allowed = self.allow.iter().any(|pattern| pattern.matches(name));
        !self.denies(name) && (self.allow.is_empty() || is_allowed)
    }

    /// Returns true if a deny pattern matches a URI in one of its spellings.
    pub fn denies_uri(&self, uri: &str) -> bool {
        match uri_spellings(uri) {
            Some(spellings) => spellings.iter().any(|uri| self.denies(uri)),
            None => !self.deny.is_empty(),
        }
    }

    /// All its patterns, each with the name of its list.
    pub fn patterns(&self) -> impl Iterator<Item = (&'static str, String)> {
        let allow = self
            .allow
            .iter()
            .map(|pattern| ("allow", pattern.pattern()));
        let deny = self.deny.iter().map(|pattern| ("deny", pattern.pattern()));
        allow.chain(deny)
    }

    /// Returns true if a deny pattern matches.
    fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns the spellings of a URI that a server may take for the same: as it is, decoded if it has characters that
/// are percent-encoded, and as a parser of URLs writes both, with a scheme in lower case and without a default port.
/// `None` for a URI that servers read in different ways: with `..`, tabs and the like.
pub fn uri_spellings(uri: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut spellings = vec![Cow::Borrowed(uri)];
    // Some servers decode twice. Deeper ones are not known.
    for _ in 0..3 {
        let decoded = decoded(&spellings[spellings.len() - 1]);
        if decoded == spellings[spellings.len() - 1] {
            break;
        }
        spellings.push(Cow::Owned(decoded));
    }
    if spellings.iter().any(|uri| is_ambiguous(uri)) {
        return None;
    }
    let parsed: Vec<String> = spellings.iter().filter_map(|uri| parsed(uri)).collect();
    spellings.extend(parsed.into_iter().map(Cow::Owned));
    Some(spellings)
}

/// True for a text from which parsers remove parts.
fn is_ambiguous(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    // Some servers take what follows a `;` for parameters of the part.
    let mut parts = path.split('/').map(|part| part.split(';').next());
    let climbs = parts.any(|part| matches!(part, Some("." | "..")));
    climbs || uri.trim() != uri || uri.contains(|c: char| c.is_control() || c == '\\')
}

fn decoded(uri: &str) -> String {
    let bytes: Vec<u8> = percent_decode(uri.as_bytes()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The URI as a parser writes it, if that is another one. Characters that a parser encodes make no other.
fn parsed(uri: &str) -> Option<String> {
    let parsed = decoded(Url::parse(uri).ok()?.as_str());
    (parsed != decoded(uri)).then_some(parsed)
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
