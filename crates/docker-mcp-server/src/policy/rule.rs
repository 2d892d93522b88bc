//! The allow and deny rules: they decide which containers, networks and volumes are visible.

use std::collections::BTreeMap;

use anyhow::bail;

type Labels = BTreeMap<String, String>;

/// A container, a network or a volume that rules are applied to, even before it is created.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(super) name: &'a str,
    labels: &'a Labels,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(name: &'a str, labels: &'a Labels) -> Self {
        Self { name, labels }
    }
}

/// Allows a subject if any `allow` rule matches, or none is set, and no `deny` rule does.
#[derive(Debug, Default)]
pub(super) struct Rules {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

/// `name=shop-*`, `label=tier`, `label=tier=web`.
#[derive(Debug, PartialEq, Eq)]
enum Rule {
    Name(String),
    Label(String, Option<String>),
}

impl Rules {
    pub(super) fn parse(allow: &[String], deny: &[String]) -> anyhow::Result<Self> {
        let parse = |rules: &[String]| -> anyhow::Result<_> {
            rules.iter().map(|rule| Rule::parse(rule)).collect()
        };
        Ok(Self {
            allow: parse(allow)?,
            deny: parse(deny)?,
        })
    }

    pub(super) fn permit(&self, subject: &Subject<'_>) -> bool {
        let mut allow = self.allow.iter();
        let allowed = self.allow.is_empty() || allow.any(|rule| rule.matches(subject));
        allowed && !self.deny(subject)
    }

    pub(super) fn deny(&self, subject: &Subject<'_>) -> bool {
        self.deny.iter().any(|rule| rule.matches(subject))
    }

    pub(super) fn are_none(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

impl Rule {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let rule = match text.split_once('=') {
            Some(("name", pattern)) => Self::Name(pattern.to_owned()),
            Some(("label", label)) => match label.split_once('=') {
                Some((key, value)) => Self::Label(key.to_owned(), Some(value.to_owned())),
                None => Self::Label(label.to_owned(), None),
            },
            _ => bail!("{text:?} is not a rule: write name=PATTERN or label=KEY[=PATTERN]"),
        };
        if let Self::Name(pattern) | Self::Label(pattern, _) = &rule
            && pattern.is_empty()
        {
            bail!("{text:?} is not a rule: its pattern is empty");
        }
        Ok(rule)
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Name(pattern) => glob(pattern, subject.name),
            Self::Label(key, pattern) => {
                let matches =
                    |value: &String| pattern.as_ref().is_none_or(|pattern| glob(pattern, value));
                subject.labels.get(key).is_some_and(matches)
            }
        }
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    // The leftmost match of each part leaves the most text for the others.
    while let Some((part, more)) = rest.split_once('*') {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
        rest = more;
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> Rules {
        let owned = |rules: &[&str]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
        Rules::parse(&owned(allow), &owned(deny)).unwrap()
    }

    #[test]
    fn patterns_match_names() {
        for (pattern, text, expected) in [
            ("web", "web", true),
            ("web", "web2", false),
            ("*", "", true),
            ("shop-*", "shop-web-1", true),
            ("shop-*", "workshop-1", false),
            ("*-db-*", "shop-db-1", true),
            ("a*a", "a", false),
            ("*ab*ab", "ab", false),
            ("*ab*ab", "abab", true),
            ("a*b*c", "acb", false),
            ("a*b*c", "abbbc", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn deny_wins_over_allow() {
        let labels = BTreeMap::from([("tier".to_owned(), "web".to_owned())]);
        let container = |name| Subject::new(name, &labels);
        assert!(rules(&[], &[]).permit(&container("x")));
        let some = rules(&["name=shop-*", "label=tier=db"], &["name=shop-secret"]);
        assert!(some.permit(&container("shop-web")));
        assert!(!some.permit(&container("shop-secret")) && !some.permit(&container("other")));
        assert!(rules(&["label=tier"], &[]).permit(&container("x")));
        assert!(!rules(&[], &["label=tier=w*"]).permit(&container("x")));
    }

    #[test]
    fn invalid_rules_are_refused() {
        let label =
            |key: &str, value: Option<&str>| Rule::Label(key.to_owned(), value.map(str::to_owned));
        for (text, rule) in [
            ("name=a=b", Rule::Name("a=b".to_owned())),
            ("label=a", label("a", None)),
            ("label=a=", label("a", Some(""))),
            ("label=a=b=c", label("a", Some("b=c"))),
        ] {
            assert_eq!(Rule::parse(text).unwrap(), rule, "{text}");
        }
        for text in [
            "", "web", "name=", "image=a", "user=x", "label=", "label==x",
        ] {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
    }
}
