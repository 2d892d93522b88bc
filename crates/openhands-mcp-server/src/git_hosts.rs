//! The options that name git hosts and their tokens.

use anyhow::Context as _;
use openhands_git::{Forge, GitHost, GitHosts};

use crate::named_urls::{NamedUrl, OptionNames};

const OPTIONS: OptionNames = OptionNames {
    urls: "OPENHANDS_GIT_HOSTS",
    tokens: "OPENHANDS_GIT_TOKENS",
    files: "OPENHANDS_GIT_TOKEN_FILES",
};

/// Parses the options. Does not connect.
///
/// # Errors
/// An option is invalid; the error says which and why, but never shows a token.
pub(crate) fn parse_options(
    urls: &[String],
    tokens: &[String],
    files: &[String],
) -> anyhow::Result<GitHosts> {
    let hosts = OPTIONS.parse(urls, tokens, files)?.into_iter();
    let hosts = hosts.map(|NamedUrl { name, url, token }| {
        let (forge, url) = Forge::split(&url);
        let url = OPTIONS.parse_url(&name, url)?;
        let host = GitHost::new(url, forge, move || token.get());
        host.with_context(|| format!("{}: {name}", OPTIONS.urls))
    });
    hosts.collect::<anyhow::Result<_>>().map(GitHosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_hosts_are_refused_without_showing_tokens() {
        let texts = |text: &str| vec![text.to_owned()];
        for url in [
            "x=ssh://git@h",
            "x=https://u:p@h",
            "x=svn+https://h",
            "X=https://h",
        ] {
            assert!(parse_options(&texts(url), &[], &[]).is_err(), "{url}");
        }
        let error = parse_options(&[], &texts("very-secret"), &[])
            .err()
            .unwrap();
        assert!(!format!("{error:#}").contains("very-secret"));
    }
}
