//! A commit of the content of a task's directory, and the pack with its objects. No reference, index or
//! file of the repository changes, and no hook runs.

use mcp_core::tool::ToolError;
use openhands_api::{AgentServer, TaskId, shell_quoted};
use upstream::redact::redacted;
use upstream::text::one_line;

use super::snapshot::{ADD_SECONDS, functions, is_object_id};

/// Larger packs are refused.
const MAX_PACK_BYTES: u64 = 64 << 20;
/// A pack is read in parts of this size.
const PART_BYTES: u64 = 4 << 20;
/// The author of commits, which is that of OpenHands' own.
const AUTHOR: &str = "OpenHands";
const EMAIL: &str = "openhands@all-hands.dev";
/// Characters of a line of git.
const MAX_LINE_CHARS: usize = 200;

/// Exit codes of the scripts.
const EXIT_NO_REPOSITORY: i32 = 74;
const EXIT_NO_PARENT: i32 = 77;
const EXIT_UNCHANGED: i32 = 78;
const EXIT_TOO_LARGE: i32 = 79;

/// A commit to be made.
pub struct NewCommit<'a> {
    /// Its message.
    pub message: &'a str,
    /// Seconds since 1970. The same content at the same time is the same commit.
    pub time: i64,
    /// Its parent; `None` for the commit with which the work began.
    pub parent: Option<&'a str>,
    /// A commit that the git host has.
    pub base: Option<&'a str>,
}

/// A commit that was made.
pub struct Commit {
    /// Its object id.
    pub id: String,
    parent: String,
    /// Such as `2 files changed, 3 insertions(+)`.
    pub summary: String,
}

impl Commit {
    /// Makes the commit of `directory`. Returns `None` if the content is that of its parent.
    ///
    /// # Errors
    /// The directory is no repository, or shares no commit with that of the git host.
    pub async fn try_new(
        server: &AgentServer,
        directory: &str,
        new: &NewCommit<'_>,
    ) -> Result<Option<Self>, ToolError> {
        let script = format!(
            "cd -P -- {directory} || exit {EXIT_NO_REPOSITORY}\n\
             [ -z \"$(git rev-parse --show-prefix 2>&1)\" ] || exit {EXIT_NO_REPOSITORY}\n\
             {functions}set -f\n\
             repositories > \"$work/repositories\" 2>/dev/null\n\
             tree=$(record . < /dev/null) || exit 76\n\
             parent={parent}\n\
             if [ -z \"$parent\" ]; then\n\
             known=$(for id in {base} $(git for-each-ref --format='%(objectname)' refs/remotes); do\n\
             git cat-file -e \"$id^{{commit}}\" 2>/dev/null && echo \"$id\"; done)\n\
             [ -n \"$known\" ] && parent=$(git merge-base HEAD $known) || exit {EXIT_NO_PARENT}\n\
             fi\n\
             old=$(git rev-parse -q --verify \"$parent^{{tree}}\") || exit {EXIT_NO_PARENT}\n\
             [ \"$old\" != \"$tree\" ] || exit {EXIT_UNCHANGED}\n\
             export GIT_AUTHOR_NAME={AUTHOR} GIT_AUTHOR_EMAIL={EMAIL} GIT_AUTHOR_DATE='@{time} +0000'\n\
             export GIT_COMMITTER_NAME={AUTHOR} GIT_COMMITTER_EMAIL={EMAIL}\n\
             export GIT_COMMITTER_DATE=\"$GIT_AUTHOR_DATE\"\n\
             commit=$(printf '%s\\n' {message} | git -c i18n.commitEncoding=utf-8 commit-tree \"$tree\" \
             -p \"$parent\") || exit 76\n\
             echo \"$commit $parent\"\n\
             git diff-tree -r --shortstat \"$parent\" \"$commit\"\n",
            directory = shell_quoted(directory),
            functions = functions(ADD_SECONDS),
            parent = new.parent.unwrap_or_default(),
            base = new.base.unwrap_or_default(),
            time = new.time,
            message = shell_quoted(new.message),
        );
        let printed = server.run_script(&script).await?;
        let refusal = match printed.exit_code {
            Some(0) => return parse(printed.text()).map(Some),
            Some(EXIT_UNCHANGED) => return Ok(None),
            Some(EXIT_NO_REPOSITORY) => {
                "The task's directory is not the top directory of a git repository.".to_owned()
            }
            Some(EXIT_NO_PARENT) => {
                "The repository in the task's directory has no commit in common with the one at the \
                 git host, so nothing can be published."
                    .to_owned()
            }
            _ => {
                let said = one_line(&redacted(printed.error()), MAX_LINE_CHARS);
                format!("git failed in the task's directory: {said}")
            }
        };
        Err(ToolError::conflict(refusal))
    }

    /// The first bytes of what it changes.
    ///
    /// # Errors
    /// git fails, or the agent server.
    pub async fn diff(
        &self,
        server: &AgentServer,
        directory: &str,
        length: usize,
    ) -> Result<String, ToolError> {
        let Self { id, parent, .. } = self;
        let directory = shell_quoted(directory);
        let script = format!(
            "cd -P -- {directory} && git diff-tree -r -p --no-ext-diff --no-textconv {parent} {id} \
             | head -c {length}\n"
        );
        let printed = server.run_script(&script).await?;
        match printed.exit_code {
            Some(0) => Ok(printed.text().to_owned()),
            _ => Err(ToolError::conflict(
                "git could not compare the changes in time.",
            )),
        }
    }

    /// The pack with the objects that the git host lacks.
    ///
    /// # Errors
    /// It is too large, or git fails, or the agent server.
    pub async fn pack(
        &self,
        server: &AgentServer,
        id: TaskId,
        directory: &str,
    ) -> Result<Vec<u8>, ToolError> {
        let Self {
            id: commit, parent, ..
        } = self;
        let file = format!(".mcp-servers/{commit}.pack");
        let directory = shell_quoted(directory);
        let script = format!(
            "cd -P -- {directory} && mkdir -p .mcp-servers || exit {EXIT_NO_REPOSITORY}\n\
             printf '%s\\n' {commit} ^{parent} | timeout {ADD_SECONDS} git pack-objects --revs --thin \
             --stdout -q > {file} || exit 76\n\
             [ \"$(wc -c < {file})\" -le {MAX_PACK_BYTES} ] || {{ rm -f {file}; exit {EXIT_TOO_LARGE}; }}\n"
        );
        let printed = server.run_script(&script).await?;
        match printed.exit_code {
            Some(0) => {}
            Some(EXIT_TOO_LARGE) => {
                return Err(ToolError::conflict(
                    "The changes are larger than 64 MiB, so they are not published.",
                ));
            }
            _ => {
                return Err(ToolError::conflict(
                    "git could not pack the changes in time.",
                ));
            }
        }
        let mut pack = Vec::new();
        loop {
            let at = pack.len() as u64;
            let part = server.workspace_file(id, &file, at, PART_BYTES).await?;
            pack.extend_from_slice(&part.bytes);
            if part.bytes.is_empty() || pack.len() as u64 >= part.size.min(MAX_PACK_BYTES) {
                break;
            }
        }
        let remove =
            format!("cd -P -- {directory} && rm -f {file} && rmdir .mcp-servers 2>/dev/null");
        server.run_script(&remove).await?;
        Ok(pack)
    }
}

fn parse(printed: &str) -> Result<Commit, ToolError> {
    let (ids, summary) = printed.split_once('\n').unwrap_or((printed, ""));
    let ids = ids.split_once(' ');
    let ids = ids.filter(|(id, parent)| is_object_id(id) && is_object_id(parent));
    let (id, parent) = ids.ok_or_else(|| {
        ToolError::conflict("git printed something unexpected in the task's directory.")
    })?;
    Ok(Commit {
        id: id.to_owned(),
        parent: parent.to_owned(),
        summary: one_line(&redacted(summary.trim()), MAX_LINE_CHARS),
    })
}
