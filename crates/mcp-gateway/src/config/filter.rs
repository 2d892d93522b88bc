//! Which of a backend's items are published: tools and prompts by name, resources by URI.

use wildmatch::WildMatch;

/// Allow and deny patterns: `*` stands for any text, `?` for one character, letter case counts.
///
/// Denying wins. Nothing allowed explicitly means that everything is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    allow: Vec<WildMatch>,
    deny: Vec<WildMatch>,
}

impl Filter {
    /// A filter with these patterns.
    pub(crate) fn new(allow: Vec<String>, deny: Vec<String>) -> Self {
        let patterns = |list: Vec<String>| list.iter().map(|text| WildMatch::new(text)).collect();
        Self {
            allow: patterns(allow),
            deny: patterns(deny),
        }
    }

    /// True if an item with this name or URI, as the backend gives it, is published.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let is_allowed = self.allow.iter().any(|pattern| pattern.matches(name));
        !self.denies(name) && (self.allow.is_empty() || is_allowed)
    }

    /// True if it is denied by name, whatever is allowed.
    pub(crate) fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allow: &[&str], deny: &[&str]) -> Filter {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Filter::new(owned(allow), owned(deny))
    }

    #[test]
    fn denying_wins_and_nothing_allowed_is_everything() {
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
    fn a_bad_pattern_costs_little() {
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
