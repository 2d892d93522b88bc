//! Where a task's code comes from. Pure.

use upstream::http::Url;

/// A git repository that the agent server can fetch, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Without credentials.
    pub(crate) url: String,
    /// Branch or tag; none for the repository's own choice.
    pub(crate) branch: Option<String>,
}

const MAX_URL: usize = 2_000;
const MAX_BRANCH: usize = 200;

impl Repository {
    /// # Errors
    /// Why it cannot be fetched, or must not be.
    pub(crate) fn new(url: &str, branch: Option<&str>) -> Result<Self, &'static str> {
        if url.len() > MAX_URL || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("context.repository is no URL");
        }
        let parsed = Url::parse(url).map_err(|_| "context.repository is no URL: use https://…")?;
        // A local path would copy what is outside of the workspace; `ext::` runs programs.
        if !matches!(parsed.scheme(), "https" | "http" | "ssh" | "git") || !parsed.has_host() {
            return Err("context.repository must begin with https://, http://, ssh:// or git://");
        }
        if parsed.password().is_some()
            || (parsed.scheme() != "ssh" && !parsed.username().is_empty())
        {
            return Err(
                "context.repository must not hold credentials: those of the agent server are used",
            );
        }
        // ssh would take it for an option.
        let host = parsed.host_str().unwrap_or_default();
        if host.starts_with('-') || parsed.username().starts_with('-') {
            return Err("context.repository has no usable host");
        }
        if let Some(branch) = branch
            && !is_ref_name(branch)
        {
            return Err("context.branch is no name of a branch or tag");
        }
        Ok(Self {
            url: url.to_owned(),
            branch: branch.map(str::to_owned),
        })
    }
}

/// As `git check-ref-format` has it, and nothing that looks like an option.
fn is_ref_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= MAX_BRANCH
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.chars().any(forbidden)
        && name.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_that_can_be_fetched() {
        for (url, branch) in [
            ("https://github.com/a/b", None),
            ("https://git.example.test:8443/a/b.git", Some("main")),
            ("ssh://git@github.com/a/b.git", Some("feature/x-1")),
            ("http://127.0.0.1:1/r.git", Some("v1.2.3")),
        ] {
            assert!(Repository::new(url, branch).is_ok(), "{url}");
        }
    }

    #[test]
    fn repositories_that_must_not() {
        for url in [
            "",
            "/srv/secret",
            "../x",
            "file:///etc",
            "ext::sh -c x",
            "ext::sh",
            "-oProxyCommand=x",
            "https://user:pw@host/x",
            "https://token@host/x",
            "ssh://-oProxyCommand=x/y",
            "https://host/a b",
            "https://host/a\nb",
            "git@github.com:a/b",
        ] {
            assert!(Repository::new(url, None).is_err(), "{url:?}");
        }
        for branch in [
            "", "-x", "a..b", "a b", "a~1", "x.lock", "a//b", ".a", "a:b", "@{u}",
        ] {
            assert!(
                Repository::new("https://h/r", Some(branch)).is_err(),
                "{branch:?}"
            );
        }
    }
}
