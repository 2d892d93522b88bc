//! Addresses of git repositories, the git hosts of the configuration, and repositories on them with their pull requests:
//! those of GitHub (API of 2022-11-28), GitLab (v4, which calls them merge requests) and Gitea or Forgejo (v1).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::Secret;
use serde_json::{Value, json};
use upstream::http::{
    Client, ErrorResponse, FailureTexts, Fault, Method, Request, ServiceProfile, SetupError, Url,
};
use upstream::redact::redacted;
use upstream::text::one_line;

use crate::named_urls::{NamedUrl, OptionNames};

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

/// Applies the rules of `git check-ref-format`, and refuses names that look like an option or a full name.
pub(crate) fn is_ref_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= MAX_BRANCH_BYTES
        && !name.starts_with(['-', '+'])
        // Git would take it for another one, here or where it is fetched.
        && !name.starts_with("refs/")
        && !name.starts_with("heads/")
        && !matches!(name, "HEAD" | "@")
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.chars().any(forbidden)
        && name.split('/').all(part)
}

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

const OPTIONS: OptionNames = OptionNames {
    urls: "OPENHANDS_GIT_HOSTS",
    tokens: "OPENHANDS_GIT_TOKENS",
    files: "OPENHANDS_GIT_TOKEN_FILES",
};

/// Git hosts answer within a second; the rest is for slow networks.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY: usize = 4 << 20;
/// Characters of a reason that the host gives.
const MAX_REASON_CHARS: usize = 300;

/// Texts of refusals, also of git itself.
pub(super) const NOT_ALLOWED: &str =
    "The git host {address} does not allow this with the token that the operator has configured.";
pub(super) const ABSENT: &str = "There is no such repository at {address}, or the token that the operator has \
     configured may not see it.";

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
    timeout: TIMEOUT,
    max_body: MAX_BODY,
    wording: FailureTexts {
        unreachable: "The git host {address} cannot be reached: {cause}.",
        timeout: "The git host {address} did not answer within {seconds} s.",
        interrupted: "The git host {address} closed the connection. Try again.",
        too_large: "The git host {address} answered with more than {mib} MiB.",
        unreadable: "The git host {address} gave an unexpected answer: the URL may be no repository.",
        may_have_changed: "",
        has_changed: "",
        no_credential: "There is no token for this git host: the operator sets OPENHANDS_GIT_TOKENS.",
        credential_unreadable: "The token of the git host cannot be read (yet): the operator checks \
                                OPENHANDS_GIT_TOKEN_FILES.",
        credential_invalid: "The token of the git host has characters that no header can carry: the \
                             operator checks OPENHANDS_GIT_TOKENS.",
        statuses: &[
            (
                300..=399,
                ToolErrorKind::NotFound,
                "The repository has moved to another address. Use that one.",
            ),
            (401..=403, ToolErrorKind::Unauthorized, NOT_ALLOWED),
            (404..=404, ToolErrorKind::NotFound, ABSENT),
            (
                429..=429,
                ToolErrorKind::Unavailable,
                "The git host {address} is busy. {retry}",
            ),
            (
                500..=599,
                ToolErrorKind::Upstream,
                "The git host {address} failed (HTTP {status}). {retry}",
            ),
        ],
        refusal,
        reason: |_| None,
    },
};

/// Explains refusals with the reason that the host gives.
fn refusal(refusal: &ErrorResponse, address: &str) -> Option<(ToolErrorKind, String)> {
    let status = refusal.status().as_u16();
    if !matches!(status, 400 | 409 | 422) {
        return None;
    }
    let body: Value = refusal.json()?;
    // GitHub: `{"message": …, "errors": […]}`, GitLab: `{"message": […]}`, Gitea: `{"message": …}`.
    let reasons = [&body["message"], &body["error"], &body["errors"]].into_iter();
    let reasons = reasons.filter(|reason| !reason.is_null()).map(|reason| {
        let text = reason.as_str().map(str::to_owned);
        text.unwrap_or_else(|| reason.to_string())
    });
    let reasons = reasons.collect::<Vec<_>>().join(" ");
    let said = said(&reasons);
    let message = format!("The git host {address} refused it (HTTP {status}): {said}");
    Some((ToolErrorKind::Conflict, message))
}

/// A text of the host for an error.
pub(crate) fn said(text: &str) -> String {
    one_line(&redacted(text), MAX_REASON_CHARS)
}

/// A git host, or a part of it. Holds a secret, so it has no `Debug`.
pub(super) struct GitHost {
    /// Repositories must be below this URL.
    url: Url,
    /// `None` for a host without an API for pull requests.
    forge: Option<Forge>,
    git: Client,
    api: Client,
    token: Secret,
}

impl GitHost {
    /// A host whose repositories are below `url`. `forge` is `None` for one whose API is not known; that of a public
    /// host is known by its name. Does not connect.
    ///
    /// # Errors
    /// When `url` is not an `http` or `https` URL with a host, or TLS cannot be set up.
    pub(super) fn new(url: Url, forge: Option<Forge>, token: Secret) -> Result<Self, SetupError> {
        let forge = forge.or_else(|| Forge::known(url.host_str()?));
        let mut origin = url.clone();
        origin.set_path("");
        let mut api = origin.clone();
        if origin.host_str() == Some("github.com") {
            // Cannot fail for a URL that has a host.
            let _ = api.set_host(Some("api.github.com"));
        }
        Ok(Self {
            git: Client::new(origin, &PROFILE)?,
            api: Client::new(api, &PROFILE)?,
            token,
            url,
            forge,
        })
    }
}

/// The git hosts for which the operator has configured a credential.
#[derive(Clone)]
pub(crate) struct GitHosts(pub(super) Vec<Arc<GitHost>>);

impl GitHosts {
    /// Parses the options that name the hosts and their tokens. Does not connect.
    ///
    /// # Errors
    /// An option is invalid; the error says which and why, but never shows a token.
    pub(crate) fn parse_options(
        urls: &[String],
        tokens: &[String],
        files: &[String],
    ) -> anyhow::Result<Self> {
        let hosts = OPTIONS.parse(urls, tokens, files)?.into_iter();
        let hosts = hosts.map(|NamedUrl { name, url, token }| {
            let (forge, url) = Forge::split(&url);
            let url = OPTIONS.parse_url(&name, url)?;
            let host = GitHost::new(url, forge, token).map(Arc::new);
            host.with_context(|| format!("{}: {name}", OPTIONS.urls))
        });
        hosts.collect::<anyhow::Result<_>>().map(Self)
    }

    /// The repository on a configured host; `None` if the operator has configured no credential for it.
    pub(crate) fn find(&self, repository: &Repository) -> Option<HostedRepository> {
        let url = repository.parsed()?;
        let path: Vec<&str> = url
            .path_segments()?
            .filter(|part| !part.is_empty())
            .collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !path.iter().all(|part| part.chars().all(is_plain)) {
            return None;
        }
        let is_below = |host: &&Arc<GitHost>| {
            let prefix = host.url.path_segments().into_iter().flatten();
            let prefix: Vec<&str> = prefix.filter(|part| !part.is_empty()).collect();
            let is_port = url.scheme() == "ssh" || url.port() == host.url.port();
            host.url.host_str() == url.host_str()
                && is_port
                && path.len() > prefix.len()
                && path.starts_with(&prefix)
        };
        // The longest URL is the most specific one.
        let hosts = self.0.iter().filter(is_below);
        let host = hosts.max_by_key(|host| host.url.path().len())?;
        let mut path: Vec<String> = path.into_iter().map(str::to_owned).collect();
        if host.forge.is_some()
            && let Some(name) = path.last_mut()
        {
            *name = name.strip_suffix(".git").unwrap_or(name).to_owned();
        }
        Some(HostedRepository {
            host: Arc::clone(host),
            path,
        })
    }
}

/// A repository on a configured host. Requests carry the credential of the host.
#[derive(Clone)]
pub(crate) struct HostedRepository {
    host: Arc<GitHost>,
    /// Without `.git` if the forge is known.
    path: Vec<String>,
}

impl HostedRepository {
    /// The address, without a credential.
    pub(crate) fn url(&self) -> String {
        let address = self.host.git.address().trim_end_matches('/');
        format!("{address}/{}", self.path.join("/"))
    }

    /// Returns true if pull requests can be opened.
    pub(crate) fn has_pull_requests(&self) -> bool {
        self.pulls_path().is_some()
    }

    /// The address for git.
    pub(super) fn git_url(&self) -> String {
        // GitLab redirects an address without the suffix.
        let suffix = self.host.forge.map_or("", |_| ".git");
        format!("{}{suffix}", self.url())
    }

    /// The address of the host, without a credential.
    pub(super) fn address(&self) -> &str {
        self.host.git.address()
    }

    /// The setting that allows git the protocol of the host.
    pub(super) fn protocol(&self) -> &'static str {
        match self.host.git.base().scheme() {
            "http" => "protocol.http.allow",
            _ => "protocol.https.allow",
        }
    }

    /// The header with the credential for git; `None` without a token.
    ///
    /// # Errors
    /// The token cannot be read.
    pub(super) fn authorization(&self) -> Result<Option<String>, ToolError> {
        let token = self.host.token.get().map_err(Fault::CredentialUnreadable);
        let token = token.map_err(|fault| self.host.git.failure(fault))?;
        Ok(token.map(|token| {
            let user = self.host.forge.map_or("git", Forge::user);
            let basic = own_user(&token).unwrap_or_else(|| basic(&format!("{user}:{token}")));
            format!("Authorization: {basic}")
        }))
    }

    /// The error for a call of git that took too long.
    pub(super) fn timed_out(&self, time: Duration) -> ToolError {
        self.host.git.failure(Fault::Timeout(time)).into()
    }

    /// A request to the API of the forge.
    fn api_request(&self, method: Method, path: Vec<String>) -> Request {
        let value = |token: String| own_user(&token).unwrap_or_else(|| format!("Bearer {token}"));
        let credential = self.host.token.get().map(|token| token.map(value));
        let request = self.host.api.request(method, path);
        request.required_credential("Authorization", credential)
    }

    /// Opens the pull request, or finds the open one of its branch. Returns its address.
    ///
    /// # Errors
    /// There is no such pull request; the error has the reason of the host.
    pub(crate) async fn open_pull_request(
        &self,
        new: &PullRequest<'_>,
    ) -> Result<String, ToolError> {
        let forge = self.host.forge.ok_or_else(no_forge)?;
        let path = self.pulls_path().ok_or_else(no_forge)?;
        let request = self.api_request(Method::POST, path.clone());
        let opened: Value = match request.body(&new.json(forge)).json().await {
            // GitHub answers so, the others with 409, if there is one. It may be the one whose answer was lost.
            Err(failure)
                if failure.is_ambiguous()
                    || failure
                        .status()
                        .is_some_and(|s| [409, 422].contains(&s.as_u16())) =>
            {
                let found = self.find_pull_request(forge, path, new).await;
                return found.ok_or_else(|| failure.into());
            }
            opened => opened?,
        };
        address(&opened).ok_or_else(|| {
            let text = PROFILE.wording.unreadable;
            ToolError::upstream(text.replace("{address}", self.address()))
        })
    }

    /// The path of the list of pull requests; `None` if it is not known. Only below the path of the program
    /// itself is the token sent to it.
    fn pulls_path(&self) -> Option<Vec<String>> {
        let (host, url) = (&self.host, &self.host.url);
        // Otherwise the path of the host may be that of the program or of an owner.
        let is_whole = url.path() == "/" || url.host_str().and_then(Forge::known).is_some();
        let fixed: &[&str] = match host.forge? {
            Forge::GitHub if host.api.base().host_str() != url.host_str() => &["repos"],
            Forge::GitHub => &["api", "v3", "repos"],
            Forge::GitLab => &["api", "v4", "projects"],
            Forge::Gitea => &["api", "v1", "repos"],
        };
        let fixed: Vec<String> = fixed.iter().map(|part| (*part).to_owned()).collect();
        if host.forge == Some(Forge::GitLab) {
            // One segment with escaped slashes. Its groups have any depth, so the path of the program cannot be told from
            // them.
            let project = [self.path.join("/"), "merge_requests".to_owned()];
            return is_whole.then(|| [fixed.as_slice(), &project].concat());
        }
        let names = self.path.len().checked_sub(2)?;
        let (program, repository) = self.path.split_at_checked(names)?;
        Some([program, &fixed, repository, &["pulls".to_owned()]].concat())
    }

    async fn find_pull_request(
        &self,
        forge: Forge,
        path: Vec<String>,
        new: &PullRequest<'_>,
    ) -> Option<String> {
        let owner = self.path.iter().nth_back(1)?;
        let (state, by_branch) = match forge {
            Forge::GitHub => ("open", ("head", format!("{owner}:{}", new.branch))),
            Forge::GitLab => ("opened", ("source_branch", new.branch.to_owned())),
            // It cannot search for a branch; the newest come first.
            Forge::Gitea => ("open", ("limit", "50".to_owned())),
        };
        let request = self.api_request(Method::GET, path);
        let request = request.query(&[("state", state.to_owned()), by_branch]);
        let open: Vec<Value> = request.json().await.ok()?;
        let is_same = |pull: &&Value| {
            pull["source_branch"] == new.branch || pull["head"]["ref"] == new.branch
        };
        open.iter().find(is_same).and_then(address)
    }
}

/// The credential of a token with a colon, which has its own user.
fn own_user(token: &str) -> Option<String> {
    token.contains(':').then(|| basic(token))
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

pub(crate) struct PullRequest<'a> {
    /// The branch with the changes.
    pub(crate) branch: &'a str,
    /// The branch into which it is to be merged.
    pub(crate) base: &'a str,
    /// In one line.
    pub(crate) title: &'a str,
    /// Its description, in Markdown.
    pub(crate) body: &'a str,
}

impl PullRequest<'_> {
    fn json(&self, forge: Forge) -> Value {
        let Self {
            branch,
            base,
            title,
            body,
        } = self;
        match forge {
            Forge::GitHub | Forge::Gitea => {
                json!({"title": title, "head": branch, "base": base, "body": body})
            }
            Forge::GitLab => json!({"title": title, "source_branch": branch,
                "target_branch": base, "description": body}),
        }
    }
}

/// The error for a pull request at a git host whose API is not known.
pub(crate) fn no_forge() -> ToolError {
    ToolError::conflict(
        "The operator has not said which API this git host has and where (such as \
         NAME=gitea+https://… in OPENHANDS_GIT_HOSTS, for GitLab without a path): set \
         pull_request to false.",
    )
}

/// The address of a pull request for people.
fn address(pull: &Value) -> Option<String> {
    let url = pull["html_url"].as_str().or(pull["web_url"].as_str())?;
    url.starts_with("http").then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_repositories_are_refused() {
        let plain = "/srv/secret ../x file:///etc ext::sh -oProxyCommand=x https://user:pw@host/x \
                     https://token@host/x ssh://-oProxyCommand=x/y git@-oProxyCommand=x:a \
                     -oProxyCommand=x@host:a u:p@host:a a@ext::sh";
        let with_space = ["", "ext::sh -c x", "https://host/a b", "https://host/a\nb"];
        for url in plain.split(' ').chain(with_space) {
            assert!(Repository::new(url, None).is_err(), "{url:?}");
        }
        for branch in "-x +x HEAD @ heads/x refs/heads/x a..b a~1 x.lock a//b .a a:b @{u}"
            .split(' ')
            .chain(["", "a b"])
        {
            let refused = Repository::new("https://h/r", Some(branch));
            assert!(refused.is_err(), "{branch:?}");
        }
    }

    #[test]
    fn only_repositories_below_a_configured_url_get_its_credential() {
        let hosts = [
            "https://github.com/acme",
            "gitea+https://github.com/acme/sub",
            "gitlab+https://git.acme.test:8443",
            "http://127.0.0.1:8080/srv",
        ];
        let hosts = GitHosts(hosts.map(host).into());
        // The most specific host counts, and its scheme. `-` is a repository without a credential.
        let rows = "https://github.com/acme/app https://github.com/acme/app GitHub
            https://github.com/acme/app.git https://github.com/acme/app GitHub
            git@github.com:acme/app.git https://github.com/acme/app GitHub
            ssh://git@github.com:22/acme/app https://github.com/acme/app GitHub
            http://github.com/acme/app https://github.com/acme/app GitHub
            https://github.com/acme/sub/app https://github.com/acme/sub/app Gitea
            https://git.acme.test:8443/a/b/c.git https://git.acme.test:8443/a/b/c GitLab
            http://127.0.0.1:8080/srv/r.git http://127.0.0.1:8080/srv/r.git None
            https://github.com/acme -
            https://github.com/acme2/app -
            https://github.com/other/app -
            https://github.com/acme/../other/app -
            https://github.com/acme/%2e%2e/other/app -
            https://github.com/acme/..%2fother -
            https://github.com.evil.test/acme/app -
            https://github.com:444/acme/app -
            https://api.github.com/acme/app -
            https://git.acme.test/a/b -
            http://127.0.0.1:8081/srv/r.git -";
        for row in rows.lines() {
            let (url, expected) = row.trim().split_once(' ').unwrap();
            let found = hosts.find(&Repository::new(url, None).unwrap());
            let found = found.map(|found| match found.host.forge {
                Some(forge) => format!("{} {forge:?}", found.url()),
                None => format!("{} None", found.url()),
            });
            assert_eq!(found.as_deref().unwrap_or("-"), expected, "{url}");
        }
    }

    fn host(text: &str) -> Arc<GitHost> {
        let (forge, url) = Forge::split(text);
        let host = GitHost::new(Url::parse(url).unwrap(), forge, Secret::new(None, None));
        Arc::new(host.unwrap())
    }

    #[tokio::test]
    async fn host_that_cannot_be_reached_is_refused_with_the_cause() {
        // Nobody listens there.
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        let token = Secret::new(Some("token".to_owned()), None);
        let host = GitHost::new(url, Some(Forge::Gitea), token).unwrap();
        let hosts = GitHosts(vec![Arc::new(host)]);
        let repository = Repository::new("http://127.0.0.1:1/a/b", None).unwrap();
        let found = hosts.find(&repository).unwrap();
        let new = PullRequest {
            branch: "change",
            base: "main",
            title: "A change",
            body: "",
        };
        let error = found.open_pull_request(&new).await.unwrap_err();
        let reason = "cannot be reached: the connection was refused";
        assert!(error.message().contains(reason), "{error}");
    }

    #[test]
    fn token_with_a_user_is_never_a_bearer_token() {
        assert_eq!(own_user("u:p").as_deref(), Some("Basic dTpw"));
        assert_eq!(own_user("ghp_x"), None);
    }
    #[test]
    fn api_has_a_host_of_its_own_or_is_below_the_path_of_its_program() {
        // The address of the host, a repository and the path of its list; `-` if there is none.
        let rows = "https://github.com acme/app repos/acme/app/pulls
            https://github.com/acme acme/app repos/acme/app/pulls
            github+https://x.test acme/app api/v3/repos/acme/app/pulls
            gitea+https://x.test/git git/acme/app git/api/v1/repos/acme/app/pulls
            gitea+https://x.test app -
            gitlab+https://x.test a/b/c api/v4/projects/a/b/c/merge_requests
            https://gitlab.com/a a/b api/v4/projects/a/b/merge_requests
            gitlab+https://x.test/git git/a/b -";
        for row in rows.lines() {
            let words: Vec<_> = row.split_whitespace().collect();
            let [url, repository, path] = words[..] else {
                panic!("{row}")
            };
            let host = host(url);
            let name = host.url.host_str().unwrap();
            let address = format!("git@{name}:{repository}.git");
            let found =
                GitHosts(vec![host.clone()]).find(&Repository::new(&address, None).unwrap());
            let found = found.unwrap().pulls_path().map(|path| path.join("/"));
            assert_eq!(found.as_deref().unwrap_or("-"), path, "{url}");
        }
    }
}
