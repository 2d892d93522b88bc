//! A commit of what a task changed, and the bundle with its objects. No reference, index or file of the
//! repository changes, and no hook runs.

use std::collections::HashMap;

use mcp_core::tool::ToolError;
use upstream::redact::redacted;
use upstream::text::{one_line, visible};

use super::changes::{ChangedDirectory, SHARED, decoded, failure_reason, lines, parse_list};
use super::changes::{EXIT_NO_DIRECTORY, RANGE, is_object_id, run_in, script};
use crate::api::{AgentServer, TaskId, shell_quoted};

/// Larger bundles are refused.
const MAX_BUNDLE_BYTES: u64 = 64 << 20;
/// A bundle is read in parts of this size.
const PART_BYTES: u64 = 4 << 20;
/// The author of commits, which is that of OpenHands' own.
pub(super) const AUTHOR: &str = "OpenHands";
pub(super) const EMAIL: &str = "openhands@all-hands.dev";
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", AUTHOR),
    ("GIT_AUTHOR_EMAIL", EMAIL),
    ("GIT_COMMITTER_NAME", AUTHOR),
    ("GIT_COMMITTER_EMAIL", EMAIL),
];
/// Characters of a line of git, and of the names in a refusal.
const MAX_LINE_CHARS: usize = 200;
const MAX_REFUSED_CHARS: usize = 400;

const COMMIT: &str = include_str!("commit.sh");
const BRANCH: &str = include_str!("branch.sh");
/// The timeout of a commit to the branch of a worktree.
const BRANCH_SECONDS: u64 = 60;

/// Exit codes of the scripts.
const EXIT_UNCHANGED: i32 = 78;
const EXIT_TOO_LARGE: i32 = 79;
/// The exit codes of `commit.sh` for what must not be published, with the reasons; `{names}` are those of files.
const REFUSALS: [(i32, &str); 7] = [
    (
        EXIT_NO_DIRECTORY,
        "The task's directory is not the top directory of a git repository.",
    ),
    (
        77,
        "The repository in the task's directory has no commit in common with the one at the \
         git host, so nothing can be published.",
    ),
    (
        80,
        "The state of the directory before the task is not known, so its changes cannot be told \
         from those of others, and nothing is published. get_task_changes shows what differs \
         from the last commit.",
    ),
    (
        81,
        "These changed files are larger than 20 MB, so nothing is published: {names}. Have the agent \
         delete them, or add them to .gitignore.",
    ),
    (
        82,
        "Git ignored these files when the task began, and does not now, so they may be \
         somebody's own, and nothing is published: {names}. Have the agent restore .gitignore.",
    ),
    (
        83,
        "The task changed files that had changes of somebody else before, which the git host \
         does not have, so nothing is published: {names}. Push those changes first, or apply the \
         patch of get_task_patch by hand.",
    ),
    (
        84,
        "Git LFS keeps the content of these changed files, which cannot be pushed from here, so nothing \
         is published: {names}. Apply the patch of get_task_patch by hand, or have the agent keep them out \
         of LFS (.gitattributes).",
    ),
];

pub(crate) struct NewCommit<'a> {
    pub(crate) message: &'a str,
    /// Seconds since 1970. The same content at the same time is the same commit.
    pub(crate) time: i64,
    /// Its parent; `None` for the commit with which the work began.
    pub(crate) parent: Option<&'a str>,
    /// A commit that the git host has.
    pub(crate) host: Option<&'a str>,
    /// Bytes of its diff that are read.
    pub(crate) diff_bytes: usize,
}

pub(crate) struct Commit {
    pub(crate) id: String,
    pub(crate) parent: String,
    /// The commit of the git host on which the work is based.
    pub(crate) from: String,
    /// Such as `2 files changed, 3 insertions(+)`.
    pub(crate) summary: String,
    /// The first bytes of what it changes.
    pub(crate) diff: String,
    /// Another task also worked in the directory.
    pub(crate) shared: Option<&'static str>,
    files: Vec<String>,
    left_out: Vec<String>,
}

/// Commands that commit what a task changed to the branch of its worktree, which is the current directory.
pub(crate) fn branch_script(
    directory: &ChangedDirectory<'_>,
    branch: &str,
    message: &str,
) -> String {
    let mut variables = directory.variables();
    variables.extend(IDENTITY);
    variables.extend([("branch", branch), ("message", message)]);
    script(&variables, &[RANGE, BRANCH], BRANCH_SECONDS)
}

impl Commit {
    /// Makes a commit of what the task changed in `directory`: the same files as [`Changes`] has, but none of the
    /// repositories below it. Returns `None` if its parent has that content.
    ///
    /// # Errors
    /// The directory is no repository, shares no commit with that of the git host, or the changes of the task cannot
    /// be told from the changes of other people.
    ///
    /// [`Changes`]: super::Changes
    pub(crate) async fn try_new(
        server: &AgentServer,
        directory: &ChangedDirectory<'_>,
        new: &NewCommit<'_>,
    ) -> Result<Option<Self>, ToolError> {
        let (time, length) = (new.time.to_string(), new.diff_bytes.to_string());
        let mut variables = directory.variables();
        variables.extend([
            ("message", new.message),
            ("time", &time),
            ("parent", new.parent.unwrap_or_default()),
            ("host", new.host.unwrap_or_default()),
            ("length", &length),
        ]);
        variables.extend(IDENTITY);
        let printed = run_in(server, directory.path, &variables, &[RANGE, COMMIT]).await?;
        match printed.exit_code {
            Some(0) => {
                let mut commit = Self::parse(printed.text())?;
                if directory.is_overlapping {
                    commit.shared = Some(SHARED);
                }
                Ok(Some(commit))
            }
            Some(EXIT_UNCHANGED) => Ok(None),
            code => {
                let known = REFUSALS.iter().find(|(known, _)| Some(*known) == code);
                let names: Vec<_> = printed.text().lines().collect();
                let names = one_line(&visible(&names.join(", ")), MAX_REFUSED_CHARS);
                Err(match known {
                    Some((_, text)) => ToolError::conflict(text.replace("{names}", &names)),
                    None => not_published(code, printed.error()),
                })
            }
        }
    }

    /// One line for each file that it changes, such as `M src/a.py`: as many as fit into `budget` bytes.
    pub(crate) fn lines(&self, budget: usize) -> Vec<String> {
        lines(&self.files, self.files.len(), budget)
    }

    /// The same for what the task changed in repositories below the directory, which is not in the commit.
    pub(crate) fn left_out(&self, budget: usize) -> Vec<String> {
        lines(&self.left_out, self.left_out.len(), budget)
    }

    fn parse(printed: &str) -> Result<Self, ToolError> {
        let unexpected =
            || ToolError::conflict("git printed something unexpected in the task's directory.");
        let mut lines = printed.lines();
        let mut next = || lines.next().ok_or_else(unexpected);
        let ids: Vec<&str> = next()?.split(' ').filter(|id| is_object_id(id)).collect();
        let [id, parent, from] = ids[..] else {
            return Err(unexpected());
        };
        let is_shared = next()?.split(' ').any(|note| note == "shared");
        let mut text = || {
            let bytes = decoded(next()?).ok_or_else(unexpected)?;
            Ok::<_, ToolError>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self {
            id: id.to_owned(),
            parent: parent.to_owned(),
            from: from.to_owned(),
            summary: one_line(&redacted(text()?.trim()), MAX_LINE_CHARS),
            files: parse_list(&text()?, &HashMap::new()).0,
            left_out: parse_list(&text()?, &HashMap::new()).0,
            diff: text()?,
            shared: is_shared.then_some(SHARED),
        })
    }

    /// The bundle with the objects that the git host, which has the commit `known`, lacks.
    ///
    /// # Errors
    /// It is too large, or git fails, or the agent server.
    pub(crate) async fn bundle(
        &self,
        server: &AgentServer,
        id: TaskId,
        directory: &ChangedDirectory<'_>,
        known: &str,
    ) -> Result<Vec<u8>, ToolError> {
        let commit = &self.id;
        // The agent server gives only files of the workspace.
        let file = format!(".mcp-servers/{commit}.bundle");
        let script = format!(
            "file=$(pwd)/{file}\n\
             mkdir -p .mcp-servers || exit 76\n\
             enter .\n\
             GIT_DIR=$(neutral \"$format\") && export GIT_DIR\n\
             git update-ref refs/mcp/commit {commit} &&\n\
             git bundle create -q \"$file\" refs/mcp/commit ^{known} || {{ rm -f -- \"$file\"; exit 76; }}\n\
             [ \"$(wc -c < \"$file\")\" -le {MAX_BUNDLE_BYTES} ] || \
             {{ rm -f -- \"$file\"; exit {EXIT_TOO_LARGE}; }}\n"
        );
        let variables = [("store", directory.store.unwrap_or_default())];
        let printed = run_in(server, directory.path, &variables, &[&script]).await?;
        match printed.exit_code {
            Some(0) => {}
            Some(EXIT_TOO_LARGE) => {
                return Err(ToolError::conflict(
                    "The changes are larger than 64 MiB, so they are not published.",
                ));
            }
            code => return Err(not_published(code, printed.error())),
        }
        let mut bundle = Vec::new();
        loop {
            let at = bundle.len() as u64;
            let part = server.workspace_file(id, &file, at, PART_BYTES).await?;
            bundle.extend_from_slice(&part.bytes);
            if part.bytes.is_empty() || bundle.len() as u64 >= part.size.min(MAX_BUNDLE_BYTES) {
                break;
            }
        }
        let remove = format!(
            "cd -P -- {} && rm -f {file} && rmdir .mcp-servers 2>/dev/null",
            shell_quoted(directory.path)
        );
        server.run_script(&remove).await?;
        Ok(bundle)
    }
}

fn not_published(exit_code: Option<i32>, error: &str) -> ToolError {
    let reason = failure_reason(exit_code, error);
    ToolError::conflict(format!("Nothing is published: {reason}."))
}
