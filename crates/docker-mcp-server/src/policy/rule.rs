//! The allow and deny rules: they decide which containers, networks, volumes and images are visible.

use std::collections::BTreeMap;

use anyhow::bail;

type Labels = BTreeMap<String, String>;

/// An object that rules are applied to.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(super) name: &'a str,
    /// All names of an image, or of a container's.
    images: Vec<&'a str>,
    /// Of a container, a network or a volume.
    labels: Option<&'a Labels>,
}

impl<'a> Subject<'a> {
    /// A container, even before it is created.
    pub(crate) fn container(name: &'a str, image: &'a str, labels: &'a Labels) -> Self {
        Self {
            name,
            images: vec![image],
            labels: Some(labels),
        }
    }

    /// An image, by its reference.
    pub(crate) fn image(name: &'a str) -> Self {
        Self {
            name,
            images: vec![name],
            labels: None,
        }
    }

    /// A network or a volume.
    pub(crate) fn object(name: &'a str, labels: &'a Labels) -> Self {
        Self {
            name,
            images: Vec::new(),
            labels: Some(labels),
        }
    }

    /// Adds further names of the image: one that is denied denies all, since they are one image.
    pub(crate) fn with_images(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.images.extend(names);
        self
    }
}

/// Allows a subject if any `allow` rule matches, or none is set, and no `deny` rule does.
#[derive(Debug, Default)]
pub(super) struct Rules {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

/// `name=shop-*`, `label=tier`, `label=tier=web`, `image=postgres:*`.
#[derive(Debug, PartialEq, Eq)]
enum Rule {
    Name(String),
    Label(String, Option<String>),
    Image(String),
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
        // A rule for images does not apply to volumes.
        let allow = || self.allow.iter().filter(|rule| rule.applies_to(subject));
        let allowed = allow().next().is_none() || allow().any(|rule| rule.matches(subject));
        allowed && !self.deny(subject)
    }

    pub(super) fn deny(&self, subject: &Subject<'_>) -> bool {
        self.deny.iter().any(|rule| rule.matches(subject))
    }

    pub(super) fn are_none(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether a rule is about images.
    pub(super) fn know_images(&self) -> bool {
        let mut rules = self.allow.iter().chain(&self.deny);
        rules.any(|rule| matches!(rule, Rule::Image(_)))
    }
}

impl Rule {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let rule = match text.split_once('=') {
            Some(("name", pattern)) => Self::Name(pattern.to_owned()),
            Some(("image", pattern)) => Self::Image(pattern.to_owned()),
            Some(("label", label)) => match label.split_once('=') {
                Some((key, value)) => Self::Label(key.to_owned(), Some(value.to_owned())),
                None => Self::Label(label.to_owned(), None),
            },
            _ => bail!(
                "{text:?} is not a rule: write name=PATTERN, image=PATTERN or label=KEY[=PATTERN]"
            ),
        };
        if let Self::Name(pattern) | Self::Image(pattern) | Self::Label(pattern, _) = &rule
            && pattern.is_empty()
        {
            bail!("{text:?} is not a rule: its pattern is empty");
        }
        Ok(rule)
    }

    fn applies_to(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Image(_) => !subject.images.is_empty(),
            Self::Name(_) | Self::Label(..) => subject.labels.is_some(),
        }
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        match (self, subject.labels) {
            (Self::Image(pattern), _) => {
                let mut images = subject.images.iter();
                images.any(|image| is_image(pattern, image))
            }
            (Self::Name(pattern), Some(_)) => glob(pattern, subject.name),
            (Self::Label(key, pattern), Some(labels)) => {
                let matches =
                    |value: &String| pattern.as_ref().is_none_or(|pattern| glob(pattern, value));
                labels.get(key).is_some_and(matches)
            }
            _ => false,
        }
    }
}

/// Whether an image matches. `x` and `docker.io/library/x:latest` are the same image; a pattern
/// without a tag matches all tags.
fn is_image(pattern: &str, image: &str) -> bool {
    let short = |name: &str| -> String {
        let name = name.strip_prefix("index.").unwrap_or(name);
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        name.strip_prefix("library/").unwrap_or(name).to_owned()
    };
    let (pattern, image) = (&short(pattern), &short(image));
    let name = image.split('@').next().unwrap_or(image);
    let untagged = match name.rsplit_once(':') {
        // Not the port of a registry.
        Some((untagged, tag)) if !tag.contains('/') => untagged,
        _ => name,
    };
    glob(pattern, image)
        || glob(pattern, untagged)
        || (untagged == name && glob(pattern, &format!("{name}:latest")))
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
    fn patterns_match_names_and_images() {
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
        for (pattern, image, expected) in [
            ("postgres", "docker.io/library/postgres:16", true),
            ("postgres:*", "postgres", true),
            ("postgres:16", "postgres:15", false),
            ("r:5000/*", "r:5000/a/b:c", true),
            ("nginx", "evil/nginx", false),
            ("docker.io/library/nginx:latest", "nginx", true),
            ("nginx", "index.docker.io/library/nginx:1", true),
            ("nginx", "library/nginx@sha256:0123", true),
            ("nginx:1", "nginx:1@sha256:0123", false),
            ("nginx:1*", "nginx:1@sha256:0123", true),
            ("nginx", "nginx2", false),
            ("r:5000/a", "r:5000/a", true),
            ("r:5000/a", "r:5000/a:2", true),
            ("r:5000/a:latest", "r:5000/a", true),
            ("r:5000/a:latest", "r:5000/a:2", false),
            ("r", "r:5000/a", false),
        ] {
            assert_eq!(is_image(pattern, image), expected, "{pattern} {image}");
        }
    }

    #[test]
    fn deny_wins_over_allow() {
        let labels = BTreeMap::from([("tier".to_owned(), "web".to_owned())]);
        let container = |name| Subject::container(name, "busybox:test", &labels);
        assert!(rules(&[], &[]).permit(&container("x")));
        let some = rules(&["name=shop-*", "label=tier=db"], &["name=shop-secret"]);
        assert!(some.permit(&container("shop-web")));
        assert!(!some.permit(&container("shop-secret")) && !some.permit(&container("other")));
        assert!(rules(&["label=tier"], &[]).permit(&container("x")));
        assert!(!rules(&[], &["label=tier=w*"]).permit(&container("x")));
        assert!(!rules(&["image=alpine"], &[]).permit(&container("x")));
        // Rules for containers do not apply to images, nor the other way round.
        assert!(some.permit(&Subject::image("busybox")));
        assert!(!rules(&["image=alpine"], &[]).permit(&Subject::image("busybox")));
        let none = BTreeMap::new();
        let volume = Subject::object("data", &none);
        assert!(rules(&["image=alpine"], &[]).permit(&volume) && !some.permit(&volume));
    }

    /// An image may have several names.
    #[test]
    fn one_denied_name_of_an_image_denies_it() {
        let names = ["good:1", "bad:1"];
        let image = || Subject::image("sha256:0123").with_images(names);
        assert!(rules(&[], &["image=other"]).permit(&image()));
        assert!(rules(&["image=good"], &[]).permit(&image()));
        assert!(!rules(&["image=good"], &["image=bad"]).permit(&image()));
    }

    #[test]
    fn rules_are_known_by_their_kind() {
        for (allow, deny, is_none, has_images) in [
            (&[][..], &[][..], true, false),
            (&["name=a"], &[], false, false),
            (&[], &["label=a"], false, false),
            (&["image=a"], &[], false, true),
            (&["name=a"], &["name=b", "image=a"], false, true),
        ] {
            let rules = rules(allow, deny);
            let found = (rules.are_none(), rules.know_images());
            assert_eq!(found, (is_none, has_images), "{allow:?} {deny:?}");
        }
    }

    #[test]
    fn invalid_rules_are_refused() {
        let label =
            |key: &str, value: Option<&str>| Rule::Label(key.to_owned(), value.map(str::to_owned));
        for (text, rule) in [
            ("name=a=b", Rule::Name("a=b".to_owned())),
            ("image=r:5000/a", Rule::Image("r:5000/a".to_owned())),
            ("label=a", label("a", None)),
            ("label=a=", label("a", Some(""))),
            ("label=a=b=c", label("a", Some("b=c"))),
        ] {
            assert_eq!(Rule::parse(text).unwrap(), rule, "{text}");
        }
        for text in ["", "web", "name=", "image=", "user=x", "label=", "label==x"] {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
    }
}
