//! Pull requests, which GitLab calls merge requests, through the APIs of GitHub (2022-11-28), GitLab (v4)
//! and Gitea or Forgejo (v1).

use mcp_core::tool::ToolError;
use serde_json::{Value, json};
use upstream::http::Method;

use super::forge::Forge;
use super::host::HostedRepository;

/// A pull request to be opened.
pub struct PullRequest<'a> {
    /// The branch with the changes.
    pub branch: &'a str,
    /// The branch into which it is to be merged.
    pub base: &'a str,
    /// In one line.
    pub title: &'a str,
    /// Its description, in Markdown.
    pub body: &'a str,
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

impl HostedRepository {
    /// Opens the pull request, or finds the open one of its branch. Returns its address.
    ///
    /// # Errors
    /// There is no such pull request; the error has the reason of the host.
    pub async fn open_pull_request(&self, new: &PullRequest<'_>) -> Result<String, ToolError> {
        let no_forge = || {
            ToolError::conflict(
                "The operator has not said which API this git host has (such as \
                 NAME=gitea+https://… in OPENHANDS_GIT_HOSTS): leave pull_request out.",
            )
        };
        let forge = self.forge.ok_or_else(no_forge)?;
        let path = self.pulls_path(forge);
        let request = self.api_request(Method::POST, path.clone());
        let opened: Value = match request.body(&new.json(forge)).json().await {
            // GitHub answers so, the others with 409, if there is one.
            Err(failure)
                if failure
                    .status()
                    .is_some_and(|s| matches!(s.as_u16(), 409 | 422)) =>
            {
                let found = self.find_pull_request(forge, path, new).await;
                return found.ok_or_else(|| failure.into());
            }
            opened => opened?,
        };
        address(&opened).ok_or_else(|| self.unexpected())
    }

    /// The path of the list of pull requests.
    fn pulls_path(&self, forge: Forge) -> Vec<String> {
        let fixed: &[&str] = match forge {
            Forge::GitHub if self.has_own_api_host() => &["repos"],
            Forge::GitHub => &["api", "v3", "repos"],
            Forge::GitLab => &["api", "v4", "projects"],
            Forge::Gitea => &["api", "v1", "repos"],
        };
        let mut path: Vec<String> = fixed.iter().map(|part| (*part).to_owned()).collect();
        match forge {
            // One segment with escaped slashes.
            Forge::GitLab => path.extend([self.path.join("/"), "merge_requests".to_owned()]),
            Forge::GitHub | Forge::Gitea => {
                path.extend(self.path.iter().cloned());
                path.push("pulls".to_owned());
            }
        }
        path
    }

    async fn find_pull_request(
        &self,
        forge: Forge,
        path: Vec<String>,
        new: &PullRequest<'_>,
    ) -> Option<String> {
        let owner = self.path.first()?;
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

/// The address of a pull request for people.
fn address(pull: &Value) -> Option<String> {
    let url = pull["html_url"].as_str().or(pull["web_url"].as_str())?;
    url.starts_with("http").then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use upstream::http::Url;

    use crate::{Forge, GitHost, GitHosts, Repository};

    #[test]
    fn api_of_github_has_a_host_of_its_own() {
        for (url, path) in [
            ("https://github.com", "repos/acme/app/pulls"),
            (
                "github+https://github.acme.test",
                "api/v3/repos/acme/app/pulls",
            ),
        ] {
            let (forge, plain) = Forge::split(url);
            let host = GitHost::new(Url::parse(plain).unwrap(), forge, || Ok(None));
            let hosts = GitHosts(vec![host.unwrap()]);
            let host = url.rsplit('/').next().unwrap();
            let url = format!("git@{host}:acme/app.git");
            let found = hosts.find(&Repository::new(&url, None).unwrap()).unwrap();
            let forge = found.forge.unwrap();
            assert_eq!(found.pulls_path(forge).join("/"), path);
        }
    }
}
