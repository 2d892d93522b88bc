//! The programs that host repositories.

/// A program that hosts repositories and has pull requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forge {
    /// GitHub, also Enterprise.
    GitHub,
    GitLab,
    /// Gitea or Forgejo.
    Gitea,
}

impl Forge {
    /// Splits `gitea+https://…` into the forge and the URL.
    pub(crate) fn split(url: &str) -> (Option<Self>, &str) {
        let known = [
            ("github+", Self::GitHub),
            ("gitlab+", Self::GitLab),
            ("gitea+", Self::Gitea),
            ("forgejo+", Self::Gitea),
        ];
        let mut known = known.into_iter();
        let split = known.find_map(|(name, forge)| Some((Some(forge), url.strip_prefix(name)?)));
        split.unwrap_or((None, url))
    }

    /// The forge of a public host.
    pub(crate) fn known(host: &str) -> Option<Self> {
        match host {
            "github.com" => Some(Self::GitHub),
            "gitlab.com" => Some(Self::GitLab),
            "codeberg.org" | "gitea.com" => Some(Self::Gitea),
            _ => None,
        }
    }

    /// The name of the user that goes with a token.
    pub(crate) fn user(self) -> &'static str {
        match self {
            Self::GitHub => "x-access-token",
            Self::GitLab => "oauth2",
            Self::Gitea => "git",
        }
    }
}
