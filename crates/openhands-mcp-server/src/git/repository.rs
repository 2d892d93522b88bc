//! Addresses of git repositories.

use upstream::http::Url;

/// A git repository that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Without credentials: a URL, or git's short form for ssh.
    pub(crate) url: String,
    /// Branch or tag; `None` for the repository's default.
    pub(crate) branch: Option<String>,
}

const MAX_URL_BYTES: usize = 2_000;
const MAX_BRANCH_BYTES: usize = 200;

impl Repository {
    /// Checks the address and the name of a branch or tag.
    ///
    /// # Errors
    /// The repository cannot be fetched, or must not be; the text names the argument of the task.
    pub(crate) fn new(url: &str, branch: Option<&str>) -> Result<Self, &'static str> {
        let is_odd = |c: char| c.is_control() || c.is_whitespace();
        if url.len() > MAX_URL_BYTES || url.chars().any(is_odd) {
            return Err("context.repository is not a URL");
        }
        let parsed = parse(url).ok_or("context.repository is not a URL: use https://…")?;
        // A local path would copy files from outside of the workspace; `ext::` runs programs.
        if !matches!(parsed.scheme(), "https" | "http" | "ssh" | "git") || !parsed.has_host() {
            return Err("context.repository must begin with https://, http://, ssh:// or git://");
        }
        if parsed.password().is_some()
            || (parsed.scheme() != "ssh" && !parsed.username().is_empty())
        {
            return Err(
                "context.repository must not contain credentials: the operator configures them",
            );
        }
        // ssh would treat it as an option.
        let host = parsed.host_str().unwrap_or_default();
        if host.starts_with('-') || parsed.username().starts_with('-') {
            return Err("context.repository has no usable host");
        }
        if let Some(branch) = branch
            && !is_ref_name(branch)
        {
            return Err("context.branch is not a valid name of a branch or tag");
        }
        Ok(Self {
            url: url.to_owned(),
            branch: branch.map(str::to_owned),
        })
    }

    /// The URL; that of the short form for ssh is an `ssh://` one.
    pub(crate) fn parsed(&self) -> Option<Url> {
        parse(&self.url)
    }
}

/// Parses a URL, or `user@host:path`.
fn parse(url: &str) -> Option<Url> {
    if !url.contains("://")
        && let Some((host, path)) = url.split_once(':')
        && host.contains('@')
        && !host.contains('/')
        && !path.starts_with(':')
    {
        let path = path.trim_start_matches('/');
        return Url::parse(&format!("ssh://{host}/{path}")).ok();
    }
    Url::parse(url).ok()
}

/// Applies the rules of `git check-ref-format`, and refuses names that look like an option.
pub(crate) fn is_ref_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= MAX_BRANCH_BYTES
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
    fn fetchable_repositories_are_accepted() {
        for (url, branch) in [
            ("https://github.com/a/b", None),
            ("https://git.example.test:8443/a/b.git", Some("main")),
            ("ssh://git@github.com/a/b.git", Some("feature/x-1")),
            ("http://127.0.0.1:1/r.git", Some("v1.2.3")),
            ("git@github.com:a/b.git", None),
        ] {
            assert!(Repository::new(url, branch).is_ok(), "{url}");
        }
    }

    #[test]
    fn unsafe_repositories_are_refused() {
        let plain = "/srv/secret ../x file:///etc ext::sh -oProxyCommand=x https://user:pw@host/x \
                     https://token@host/x ssh://-oProxyCommand=x/y git@-oProxyCommand=x:a \
                     -oProxyCommand=x@host:a u:p@host:a a@ext::sh";
        let with_space = ["", "ext::sh -c x", "https://host/a b", "https://host/a\nb"];
        for url in plain.split(' ').chain(with_space) {
            assert!(Repository::new(url, None).is_err(), "{url:?}");
        }
        for branch in "-x a..b a~1 x.lock a//b .a a:b @{u}"
            .split(' ')
            .chain(["", "a b"])
        {
            let refused = Repository::new("https://h/r", Some(branch));
            assert!(refused.is_err(), "{branch:?}");
        }
    }
}
