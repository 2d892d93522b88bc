//! Pull requests, which GitLab calls merge requests, through the APIs of GitHub (2022-11-28), GitLab (v4)
//! and Gitea or Forgejo (v1).

use mcp_core::tool::ToolError;
use serde_json::{Value, json};
use upstream::http::Method;

use super::host::{Forge, HostedRepository};

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

impl HostedRepository {
    /// Opens the pull request, or finds the open one of its branch. Returns its address.
    ///
    /// # Errors
    /// There is no such pull request; the error has the reason of the host.
    pub(crate) async fn open_pull_request(
        &self,
        new: &PullRequest<'_>,
    ) -> Result<String, ToolError> {
        let forge = self.forge().ok_or_else(no_forge)?;
        let path = self.pulls_path().ok_or_else(no_forge)?;
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

    /// The path of the list of pull requests; `None` if it is not known. Only below the path of the program
    /// itself is the token sent to it.
    pub(crate) fn pulls_path(&self) -> Option<Vec<String>> {
        let forge = self.forge()?;
        let fixed: &[&str] = match forge {
            Forge::GitHub if self.has_own_api_host() => &["repos"],
            Forge::GitHub => &["api", "v3", "repos"],
            Forge::GitLab => &["api", "v4", "projects"],
            Forge::Gitea => &["api", "v1", "repos"],
        };
        let fixed = fixed.iter().map(|part| (*part).to_owned());
        Some(match forge {
            // Its groups have any depth, so the path of the program cannot be told from them.
            Forge::GitLab if !self.is_whole() => return None,
            // One segment with escaped slashes.
            Forge::GitLab => fixed
                .chain([self.path.join("/"), "merge_requests".to_owned()])
                .collect(),
            Forge::GitHub | Forge::Gitea => {
                let (program, repository) = self
                    .path
                    .split_at_checked(self.path.len().checked_sub(2)?)?;
                let path = program.iter().cloned().chain(fixed);
                let path = path.chain(repository.iter().cloned());
                path.chain(["pulls".to_owned()]).collect()
            }
        })
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

/// The address of a pull request for people.
fn address(pull: &Value) -> Option<String> {
    let url = pull["html_url"].as_str().or(pull["web_url"].as_str())?;
    url.starts_with("http").then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_serve::Secret;
    use upstream::http::Url;

    use crate::git::host::{Forge, GitHost};
    use crate::git::{GitHosts, Repository};

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
            let (forge, plain) = Forge::split(url);
            let parsed = Url::parse(plain).unwrap();
            let address = format!("git@{}:{repository}.git", parsed.host_str().unwrap());
            let hosts = GitHosts(vec![Arc::new(
                GitHost::new(parsed, forge, Secret::new(None, None)).unwrap(),
            )]);
            let found = hosts
                .find(&Repository::new(&address, None).unwrap())
                .unwrap();
            let found = found.pulls_path().map(|path| path.join("/"));
            assert_eq!(found.as_deref().unwrap_or("-"), path, "{url}");
        }
    }
}
