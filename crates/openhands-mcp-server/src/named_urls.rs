//! Options that name other services: `NAME=URL` of each, and `NAME=TOKEN` or `NAME=FILE` of those that need
//! a token.

use anyhow::{Context as _, anyhow, ensure};
use mcp_serve::Secret;
use upstream::http::Url;

/// A service of the configuration. Holds a secret, so it has no `Debug`.
pub(crate) struct NamedUrl {
    pub(crate) name: String,
    /// As it was given, before the URL itself is checked.
    pub(crate) url: String,
    pub(crate) token: Secret,
}

/// The names of the three options of one kind of service.
pub(crate) struct OptionNames {
    pub(crate) urls: &'static str,
    pub(crate) tokens: &'static str,
    pub(crate) files: &'static str,
}

impl OptionNames {
    /// Parses the values of the options.
    ///
    /// # Errors
    /// An option is invalid; the error says which and why, but never shows a token.
    pub(crate) fn parse(
        &self,
        urls: &[String],
        tokens: &[String],
        files: &[String],
    ) -> anyhow::Result<Vec<NamedUrl>> {
        let option = self.urls;
        let tokens = parse_pairs(tokens, self.tokens, "TOKEN")?;
        let files = parse_pairs(files, self.files, "FILE")?;
        let mut read: Vec<NamedUrl> = Vec::new();
        for (name, url) in parse_pairs(urls, option, "URL")? {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
            ensure!(
                starts && name.len() <= 20 && name.chars().all(is_plain),
                "{option}: a name is 1 to 20 of a-z, 0-9 and -, and begins with a letter"
            );
            ensure!(
                read.iter().all(|known| known.name != name),
                "{option} names {name} twice"
            );
            let find = |pairs: &[(&str, &str)]| {
                let mut found = pairs.iter().filter(|(other, _)| *other == name);
                found.next().map(|(_, value)| (*value).to_owned())
            };
            read.push(NamedUrl {
                token: Secret::new(find(&tokens), find(&files).map(Into::into)),
                name: name.to_owned(),
                url: url.to_owned(),
            });
        }
        for (name, _) in tokens.iter().chain(&files) {
            let is_known = read.iter().any(|known| known.name == *name);
            ensure!(
                is_known,
                "there is a token for {name:?}, but {option} does not name it"
            );
        }
        Ok(read)
    }

    /// Parses the URL of a service.
    ///
    /// # Errors
    /// It is not an address without a password.
    pub(crate) fn parse_url(&self, name: &str, text: &str) -> anyhow::Result<Url> {
        let option = self.urls;
        let url = Url::parse(text);
        let url =
            url.map_err(|reason| anyhow!("{option}: the URL of {name} is not valid: {reason}"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https")
                && url.username().is_empty()
                && url.password().is_none(),
            "{option}: the URL of {name} must be http or https and must not contain a password"
        );
        Ok(url)
    }
}

/// Parses `NAME=VALUE` texts. Ignores blank ones: compose files forward unset variables as empty.
fn parse_pairs<'a>(
    texts: &'a [String],
    option: &str,
    value: &str,
) -> anyhow::Result<Vec<(&'a str, &'a str)>> {
    let texts = texts.iter().map(|text| text.trim());
    let pairs = texts.filter(|text| !text.is_empty()).map(|text| {
        let pair = text.split_once('=').context("there is no '='");
        let (name, value) = pair.with_context(|| {
            format!("{option} must be NAME={value}; separate several with commas")
        })?;
        Ok((name.trim(), value.trim()))
    });
    pairs.collect()
}
