//! Which of a backend's items are published: tools and prompts by name, resources by URI.

/// Allow and deny patterns: `*` stands for any text, `?` for one character, letter case counts.
///
/// Denying wins. Nothing allowed explicitly means that everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    allow: Vec<String>,
    deny: Vec<String>,
}

impl Filter {
    /// A filter with these patterns.
    pub fn new(allow: Vec<String>, deny: Vec<String>) -> Self {
        Self { allow, deny }
    }

    /// True if an item with this name or URI, as the backend gives it, is published.
    pub fn allows(&self, name: &str) -> bool {
        let is_allowed = self.allow.iter().any(|pattern| matches(pattern, name));
        !self.denies(name) && (self.allow.is_empty() || is_allowed)
    }

    /// True if it is denied by name, whatever is allowed.
    pub fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| matches(pattern, name))
    }
}

/// Goes back to the last `*` only, so that no pattern takes more than `pattern` × `name` steps.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star stands, and how far its text reaches.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, reach)) = star else {
                    return false;
                };
                star = Some((at, reach + 1));
                p = at + 1;
                n = reach + 1;
            }
        }
    }
    pattern[p..].iter().all(|&rest| rest == '*')
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
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(10_000)));
        assert!(matches("**a*?*b", "xaxyb"));
        assert!(!matches("*a*b?", "ab"));
        assert!(matches("ä?", "äö"));
    }
}
