//! The program `git` on the machine of this server, for requests with the credential of a git host. The credential is
//! in the environment of one call: no file, argument or other program has it.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use super::commit::{AUTHOR, EMAIL};
use super::host::{ABSENT, HostedRepository, NOT_ALLOWED, said};

/// Git hosts answer within a second; the rest is for slow networks.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
const PUSH_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout for fetching a repository.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(900);

/// Settings of each call. Nothing but the host of the repository gets the credential, and none is stored.
const SETTINGS: [(&str, &str); 10] = [
    ("credential.helper", ""),
    ("core.hooksPath", "/dev/null"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    // A push sends only what the host lacks, also if the parent of its commit is not the tip of a branch.
    ("push.negotiate", "true"),
    ("user.name", AUTHOR),
    ("user.email", EMAIL),
];
/// Variables that are not for git: tokens of this server, and settings that would change a call.
const REMOVED: [&str; 4] = ["GIT_", "MCP_", "OPENHANDS_", "SSH_"];

/// Branches and tags of a repository.
#[derive(Default)]
pub(crate) struct Refs {
    /// Their ids, by their full names.
    ids: HashMap<String, String>,
    /// The default branch.
    pub(crate) default_branch: Option<String>,
}

impl Refs {
    /// Parses the output of `git ls-remote --symref`.
    fn parse(printed: &str) -> Self {
        let mut found = Self::default();
        for (id, name) in printed.lines().filter_map(|line| line.split_once('\t')) {
            match id.strip_prefix("ref: refs/heads/") {
                Some(branch) if name == "HEAD" => found.default_branch = Some(branch.to_owned()),
                Some(_) => {}
                None => drop(found.ids.insert(name.to_owned(), id.to_owned())),
            }
        }
        found
    }

    /// The commit of a branch.
    pub(crate) fn branch(&self, name: &str) -> Option<&str> {
        self.ids
            .get(&format!("refs/heads/{name}"))
            .map(String::as_str)
    }

    /// The full name of a branch or tag.
    pub(crate) fn full_name(&self, name: &str) -> Option<String> {
        let names = ["heads", "tags"].map(|kind| format!("refs/{kind}/{name}"));
        names.into_iter().find(|name| self.ids.contains_key(name))
    }
}

/// A part of a repository in one file.
pub(super) struct Bundle {
    directory: TempDir,
    /// The commits whose parents are left out, one a line.
    pub(super) shallow: String,
}

impl Bundle {
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("bundle")
    }
}

/// A commit to be pushed.
pub(crate) struct Push<'a> {
    pub(crate) branch: &'a str,
    /// The present commit of the branch; `None` creates it.
    pub(crate) old: Option<&'a str>,
    pub(crate) commit: &'a str,
    /// The commit of which the bundle has what follows. The host has it.
    pub(crate) known: &'a str,
    /// A branch that has it.
    pub(crate) base: &'a str,
    /// A bundle with the commit.
    pub(crate) bundle: &'a [u8],
    /// The parent of the commit, if what it changes is put on the present commit of the branch instead.
    pub(crate) merged_from: Option<&'a str>,
}

impl HostedRepository {
    pub(crate) async fn refs(&self) -> Result<Refs, ToolError> {
        let url = self.git_url();
        let mut list = vec!["ls-remote", "--symref", &*url];
        list.extend(words("HEAD refs/heads/* refs/tags/*"));
        let printed = self.remote(Path::new("/"), &list, LIST_TIMEOUT);
        Ok(Refs::parse(&printed.await?))
    }

    /// Fetches `wanted`, the full name of a branch or tag or the id of a commit, as `refs/mcp/head`. With a `depth` also
    /// that many commits of all branches, or all of them if it is 0.
    pub(super) async fn fetch(
        &self,
        wanted: &str,
        depth: Option<u32>,
    ) -> Result<Bundle, ToolError> {
        let directory = self.new_repository().await?;
        let (url, head) = (self.git_url(), format!("+{wanted}:refs/mcp/head"));
        let commits = depth.unwrap_or(1).to_string();
        let mut arguments = vec!["fetch", "-q"];
        if commits != "0" {
            arguments.extend(["--depth", &*commits]);
        }
        match depth {
            None => arguments.extend(["--no-tags", &*url, &*head]),
            Some(_) => {
                let all = "+refs/heads/*:refs/remotes/origin/*";
                arguments.extend(["--tags", &*url, &*head, all]);
            }
        }
        self.remote(directory.path(), &arguments, FETCH_TIMEOUT)
            .await?;
        self.bundle(directory, &[]).await
    }

    /// Fetches all branches as `refs/remotes/origin/`: their commits since the `known` ones. Returns `None` if there is none.
    pub(super) async fn fetch_new(&self, known: &[&str]) -> Result<Option<Bundle>, ToolError> {
        let refs = self.refs().await?;
        let branches = refs.ids.iter();
        let mut branches = branches.filter(|(name, _)| name.starts_with("refs/heads/"));
        if branches.all(|(_, id)| known.contains(&id.as_str())) {
            return Ok(None);
        }
        let (directory, url) = (self.new_repository().await?, self.git_url());
        let mut seed = words("fetch -q --no-tags --depth 1");
        seed.extend([&[&*url], known].concat());
        // The host may not have one any longer, after a forced push for example.
        let is_seeded = !known.is_empty()
            && self
                .remote(directory.path(), &seed, FETCH_TIMEOUT)
                .await
                .is_ok();
        let known = if is_seeded { known } else { &[] };
        let all = "+refs/heads/*:refs/remotes/origin/*";
        let arguments = ["fetch", "-q", "--no-tags", &*url, all];
        self.remote(directory.path(), &arguments, FETCH_TIMEOUT)
            .await?;
        self.bundle(directory, known).await.map(Some)
    }

    /// All that was fetched into a directory, but for the `known` commits and what is before them.
    async fn bundle(&self, directory: TempDir, known: &[&str]) -> Result<Bundle, ToolError> {
        let known: Vec<String> = known.iter().map(|id| format!("^{id}")).collect();
        let mut pack = words("bundle create -q bundle --all");
        pack.extend(known.iter().map(String::as_str));
        self.git(directory.path(), &pack, FETCH_TIMEOUT, None)
            .await?;
        let shallow = tokio::fs::read_to_string(directory.path().join("shallow")).await;
        Ok(Bundle {
            directory,
            // There is no such file if nothing was left out.
            shallow: shallow.unwrap_or_default(),
        })
    }

    /// Sets the branch to the commit, or to one with the same changes on what others have added. Returns the new commit of
    /// the branch.
    ///
    /// # Errors
    /// The branch was not changed, unless the error says that it may be.
    pub(crate) async fn push(&self, push: &Push<'_>) -> Result<String, ToolError> {
        let (url, directory) = (self.git_url(), self.new_repository().await?);
        let run = async |arguments: &[&str]| {
            let ran = self.remote(directory.path(), arguments, PUSH_TIMEOUT);
            ran.await
        };
        // Hosts without version 2 of git's protocol give only the tips of branches by id.
        let mut known = words("fetch -q --no-tags --depth 1");
        known.extend([&*url, push.known]);
        if run(&known).await.is_err() {
            let base = format!("refs/heads/{}", push.base);
            run(&["fetch", "-q", "--no-tags", &*url, &*base]).await?;
        }
        let file = directory.path().join("bundle");
        tokio::fs::write(&file, push.bundle)
            .await
            .map_err(no_file)?;
        let unpack = ["fetch", "-q", "bundle", "refs/mcp/commit"];
        self.git(directory.path(), &unpack, PUSH_TIMEOUT, None)
            .await?;
        let old = push.old.unwrap_or_default();
        let commit = match push.merged_from {
            Some(parent) => {
                let tip = format!("refs/heads/{}", push.branch);
                run(&["fetch", "-q", "--no-tags", "--depth", "1", &*url, &*tip]).await?;
                self.merge(directory.path(), (parent, push.commit), old)
                    .await?
            }
            None => push.commit.to_owned(),
        };
        let lease = format!("--force-with-lease=refs/heads/{}:{old}", push.branch);
        let new = format!("{commit}:refs/heads/{}", push.branch);
        let pushed = run(&["push", "--porcelain", &*lease, &*url, &*new]).await;
        let Err(error) = pushed else {
            return Ok(commit);
        };
        // Its answer may be lost, or be that to a repetition of it.
        let refs = self.refs().await;
        if refs.is_ok_and(|refs| refs.branch(push.branch) == Some(&*commit)) {
            return Ok(commit);
        }
        let (branch, said) = (push.branch, error.message());
        Err(match error.kind() {
            ToolErrorKind::Conflict => {
                let text = format!("The git host did not take the branch {branch}. {said}");
                ToolError::conflict(text)
            }
            kind @ (ToolErrorKind::Upstream | ToolErrorKind::Timeout) => {
                let text = format!(
                    "The git host has not confirmed the push, so the branch {branch} may have the commit all the \
                     same: call publish_task again, which pushes nothing twice. {said}"
                );
                ToolError::new(kind, text)
            }
            _ => error,
        })
    }

    /// Makes a commit on `tip` with the changes from `old` to `new`. Returns `tip` if that has them.
    ///
    /// # Errors
    /// They do not fit to those of others.
    async fn merge(
        &self,
        directory: &Path,
        (old, new): (&str, &str),
        tip: &str,
    ) -> Result<String, ToolError> {
        let git = async |arguments: &[&str]| {
            let ran = self.git(directory, arguments, PUSH_TIMEOUT, None).await;
            ran.map(|printed| printed.trim().to_owned())
        };
        // git before 2.40 takes no base: it is the parent of two commits made for this.
        let of = |commit: &str| format!("{commit}^{{tree}}");
        let on_old =
            async |tree: String| git(&["commit-tree", &tree, "-p", old, "-m", "side"]).await;
        let [others, own] = [on_old(of(tip)).await?, on_old(of(new)).await?];
        let mut merge = words("merge-tree --write-tree --name-only --no-messages");
        merge.extend([&*others, &*own]);
        let merged = self.run(directory, &merge, PUSH_TIMEOUT, None).await?;
        let printed = String::from_utf8_lossy(&merged.stdout).into_owned();
        let (tree, names) = printed.split_once('\n').unwrap_or((&printed, ""));
        match merged.status.code() {
            Some(0) => {}
            Some(1) => {
                let names: Vec<&str> = names.lines().filter(|line| !line.is_empty()).collect();
                return Err(ToolError::conflict(format!(
                    "Others have changed the same lines of the branch, and nothing was published: {}. Tell the \
                     agent with send_message what they are now, or publish to another branch.",
                    said(&names.join(", "))
                )));
            }
            _ => return Err(self.explain(&String::from_utf8_lossy(&merged.stderr))),
        }
        if git(&["rev-parse", &of(tip)]).await? == tree {
            return Ok(tip.to_owned());
        }
        let message = git(&["log", "-1", "--format=%B", new]).await?;
        git(&["commit-tree", tree, "-p", tip, "-m", &message]).await
    }

    async fn new_repository(&self) -> Result<TempDir, ToolError> {
        let directory = tempfile::tempdir().map_err(no_file)?;
        let init = ["init", "-q", "--bare", "--template="];
        self.git(directory.path(), &init, LIST_TIMEOUT, None)
            .await?;
        Ok(directory)
    }

    /// Runs git with the credential, and returns what it prints.
    async fn remote(
        &self,
        directory: &Path,
        arguments: &[&str],
        time: Duration,
    ) -> Result<String, ToolError> {
        let header = self.authorization()?;
        self.git(directory, arguments, time, header).await
    }

    async fn git(
        &self,
        directory: &Path,
        arguments: &[&str],
        time: Duration,
        header: Option<String>,
    ) -> Result<String, ToolError> {
        let Output {
            status,
            stdout,
            stderr,
        } = self.run(directory, arguments, time, header).await?;
        let printed = String::from_utf8_lossy(&stdout).into_owned();
        match status.success() {
            true => Ok(printed),
            false => Err(self.explain(&format!("{}{printed}", String::from_utf8_lossy(&stderr)))),
        }
    }

    async fn run(
        &self,
        directory: &Path,
        arguments: &[&str],
        time: Duration,
        header: Option<String>,
    ) -> Result<Output, ToolError> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            let shown = name.to_string_lossy();
            if REMOVED.iter().any(|start| shown.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        let mut settings = SETTINGS
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec();
        settings.push((self.protocol(), "always".to_owned()));
        settings.extend(header.map(|header| ("http.extraHeader", header)));
        for (at, (name, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{at}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        command
            .args(arguments)
            .current_dir(directory)
            .env("GIT_CONFIG_COUNT", settings.len().to_string())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            // Its helpers end when it does not read from them any longer.
            .kill_on_drop(true);
        let Ok(ended) = timeout(time, command.output()).await else {
            return Err(self.timed_out(time));
        };
        ended.map_err(no_git)
    }

    /// The error for a call of git that printed this.
    fn explain(&self, printed: &str) -> ToolError {
        let reason = reason(printed);
        let has = |words: &[&str]| words.iter().any(|word| printed.contains(word));
        let (kind, text) = if has(&[
            "could not read Username",
            "Authentication failed",
            "error: 403",
        ]) {
            (ToolErrorKind::Unauthorized, NOT_ALLOWED)
        } else if has(&["' not found", "error: 404"]) {
            (ToolErrorKind::NotFound, ABSENT)
        } else if has(&[
            "Could not resolve host",
            "Failed to connect",
            "Connection refused",
        ]) {
            (
                ToolErrorKind::Unavailable,
                "The git host {address} cannot be reached.",
            )
        } else {
            let kind = match has(&["[rejected]", "[remote rejected]"]) {
                true => ToolErrorKind::Conflict,
                false => ToolErrorKind::Upstream,
            };
            return ToolError::new(kind, format!("Git says: {reason}"));
        };
        let text = text.replace("{address}", self.address());
        ToolError::new(kind, format!("{text} Git says: {reason}"))
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// Git's own reason for a failure, from what it has printed.
pub(crate) fn reason(printed: &str) -> String {
    let is_reason = |line: &&str| {
        let starts = ["fatal: ", "error: ", "remote: ", "!"];
        starts.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = printed.lines().filter(is_reason).collect();
    let first = || printed.lines().find(|line| !line.trim().is_empty());
    match lines.is_empty() {
        true => said(first().unwrap_or("no reason given")),
        false => said(&lines.join(" ")),
    }
}

fn no_git(cause: std::io::Error) -> ToolError {
    let error = ToolError::conflict(match cause.kind() {
        ErrorKind::NotFound => {
            "The machine of this MCP server has no program git, which tokens of git hosts need: the operator \
             installs it."
        }
        _ => "The program git cannot be run on the machine of this MCP server.",
    });
    error.caused_by(cause)
}

fn no_file(cause: std::io::Error) -> ToolError {
    let message = "This MCP server cannot write temporary files for git.";
    ToolError::conflict(message).caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_that_of_git_without_secrets() {
        let token = format!("ghp_{}", "0123456789abcdefABCDEF".repeat(2));
        let printed = format!("Cloning\nremote: no {token}\nfatal: repository 'x' not found\n");
        assert_eq!(
            reason(&printed),
            "remote: no *** fatal: repository 'x' not found"
        );
        assert_eq!(reason("\nodd\n"), "odd");
        assert_eq!(reason(""), "no reason given");
    }
}
