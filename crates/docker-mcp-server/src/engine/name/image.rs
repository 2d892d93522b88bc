//! References to images.

use super::{ImageName, NameSyntax};

/// Longest reference accepted, in bytes.
const MAX_LEN: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImageSyntax {}

impl NameSyntax for ImageSyntax {
    const EXPECTED: &'static str = "not an image: write `name`, `name:tag`, \
        `registry:port/path/name:tag` or an id; list_images shows them";

    /// Checks every part between slashes, since a reference goes into URL paths unescaped, slashes
    /// included: each begins with a letter or digit, which `..` does not.
    fn check(text: &str) -> Option<&str> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
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
            let digest = digest.split_once(':');
            digest.is_some_and(|(kind, hex)| is_word(kind) && is_hex(hex))
        });
        (legal && digest_is_legal && text.len() <= MAX_LEN).then_some(text)
    }
}

impl ImageName {
    /// The name without a tag, and the tag; `latest` if it has neither tag nor digest.
    pub(crate) fn split(&self) -> (&str, &str) {
        let reference = self.as_str();
        if let Some((name, digest)) = reference.split_once('@') {
            // The engine accepts a digest in place of a tag.
            return (name, digest);
        }
        match reference.rsplit_once(':') {
            // Not the port of a registry.
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (reference, "latest"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_ids_are_accepted() {
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
        assert!(ImageName::new(&format!("a@sha256:{}", &hex[..32])).is_ok());
        assert!(ImageName::new(&"a".repeat(MAX_LEN)).is_ok());
        let pinned = ImageName::new(&format!("a/b@sha256:{hex}")).unwrap();
        assert_eq!(pinned.split(), ("a/b", &*format!("sha256:{hex}")));
    }

    #[test]
    fn references_that_could_change_a_path_are_refused() {
        let hostile = "/ a/ /a a//b .. ../x a/../b a/.. a/./b %2e%2e/x a?b a#b ä a:b:c a/b:c/d a@b \
                       a@sha256:zz :a a: -a a\\b a..b x/json?y";
        let long = "a".repeat(MAX_LEN + 1);
        let hex = "0123456789abcdef0123456789abcde";
        let digests = [
            format!("a@sha256:{hex}"),
            format!("a@sha256:{hex}g"),
            format!("a@-x:{hex}f"),
            format!("a@:{hex}f"),
            format!("../x@sha256:{hex}f"),
            format!("a@sha256:{hex}f/../x"),
        ];
        let digests = digests.iter().map(String::as_str);
        let hostile = hostile.split(' ').chain(digests);
        for name in hostile.chain(["", "a b", "a\n", "a\0", &long]) {
            assert!(ImageName::new(name).is_err(), "{name:?}");
        }
    }
}
