//! The worktree of a task, and work in it that would be lost with it.

use mcp_core::tool::ToolError;
use upstream::text::{one_line, visible};

use crate::api::{AgentServer, TaskId, shell_quoted};
use crate::git::reason;

const UNSAVED: &str = include_str!("unsaved.sh");
/// Characters of the names of files, or of the titles of commits, in a question.
const MAX_NAMES_CHARS: usize = 300;

/// The branch of the worktree of a task.
pub(crate) fn worktree_branch(id: TaskId) -> String {
    let id = id.to_string();
    format!("task-{}", id.get(..8).unwrap_or_default())
}

/// Removes the worktree of a task with its branch. It may be gone already: the branch is in `repository`.
pub(crate) async fn remove_worktree(
    server: &AgentServer,
    id: TaskId,
    (directory, repository): (&str, Option<&str>),
) -> Result<(), ToolError> {
    let script = format!(
        "dir={dir} repository={repository}\n\
         cd -P -- \"$dir\" 2>/dev/null && [ -e .git ] || cd -P -- \"${{repository:-/dev/null}}\" 2>/dev/null || exit 0\n\
         top=$(git rev-parse --path-format=absolute --git-common-dir) || exit 1\n\
         cd / && run() {{ git -c core.hooksPath=/dev/null --git-dir=\"$top\" \"$@\"; }}\n\
         # Also those of starts that were cut off.\n\
         run worktree list --porcelain | sed -n 's/^worktree //p' | while read -r other; do\n\
         case ${{other##*/}} in {id}|{id}-*) ;; *) continue ;; esac\n\
         run worktree remove --force -- \"$other\" || [ \"${{other##*/}}\" != \"${{dir##*/}}\" ] || exit 1\n\
         done || exit 1\n\
         # One that is checked out elsewhere stays.\n\
         [ -z \"$(run for-each-ref --format='%(worktreepath)' refs/heads/{branch})\" ] || exit 0\n\
         run rev-parse -q --verify refs/heads/{branch} >/dev/null || exit 0\n\
         run branch -q -D {branch}\n",
        dir = shell_quoted(directory),
        repository = shell_quoted(repository.unwrap_or_default()),
        branch = worktree_branch(id),
    );
    let printed = server.run_script(&script).await?;
    match printed.exit_code {
        Some(0) => Ok(()),
        _ => Err(ToolError::conflict(format!(
            "The worktree or its branch cannot be removed, so the task was not deleted. Git says: {}",
            reason(printed.error())
        ))),
    }
}

/// Returns true if the task works in a worktree of its own.
pub(crate) fn has_worktree(id: TaskId, branch: Option<&str>) -> bool {
    branch == Some(&*worktree_branch(id))
}

/// The commits and files of a worktree that are nowhere else: lines of a kind and a text. `commit` is one that no other
/// branch or tag has, `file` one with changes that are not committed, as git prints them, such as `?? notes.txt`, and
/// `ignored` one that git ignores. `left` is the branch, if the worktree is gone and its repository is not known, `kept`
/// the branch, if it is checked out elsewhere. `sum` changes with the commits and the content of the files, but of those in
/// ignored directories.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnsavedWork(String);

impl UnsavedWork {
    /// Reads it. Without the directory it is that of the branch in `repository`.
    ///
    /// # Errors
    /// Git cannot tell.
    pub(crate) async fn read(
        server: &AgentServer,
        id: TaskId,
        (directory, repository): (&str, Option<&str>),
    ) -> Result<Self, ToolError> {
        let script = format!(
            "dir={} repository={} branch={} id={id}\n{UNSAVED}",
            shell_quoted(directory),
            shell_quoted(repository.unwrap_or_default()),
            worktree_branch(id)
        );
        let printed = server.run_script(&script).await?;
        match printed.exit_code {
            Some(0) => Ok(Self(printed.text().to_owned())),
            _ => Err(ToolError::conflict(format!(
                "Git cannot tell which work in the worktree would be lost, so the task was not deleted: look at \
                 {directory} and remove the worktree by hand. Git says: {}",
                reason(printed.error())
            ))),
        }
    }

    /// The texts of one kind.
    fn of(&self, kind: &str) -> Vec<&str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(' '));
        let lines = lines.filter(|(found, _)| *found == kind);
        lines.map(|(_, text)| text).collect()
    }

    /// Returns true if nothing would be lost.
    pub(crate) fn is_empty(&self) -> bool {
        let kinds = ["commit", "file", "ignored"];
        kinds.iter().all(|kind| self.of(kind).is_empty())
    }

    /// One sentence for each kind of what would be lost.
    pub(crate) fn question(&self) -> String {
        let kinds = [
            ("commits that no other branch has", self.of("commit")),
            ("files that are not committed", self.of("file")),
            ("files or directories that git ignores", self.of("ignored")),
        ];
        let kinds = kinds.into_iter().filter(|(_, lost)| !lost.is_empty());
        let kinds = kinds.map(|(kind, lost)| {
            let names = one_line(&visible(&lost.join(", ")), MAX_NAMES_CHARS);
            format!(" Of the worktree {} {kind} are lost: {names}.", lost.len())
        });
        let left = self.of("left").into_iter().map(|branch| {
            format!(" Its worktree is gone and the repository not known: a branch {branch} may stay in that.")
        });
        let kept = self.of("kept").into_iter();
        let kept =
            kept.map(|branch| format!(" Its branch {branch} is checked out elsewhere and stays."));
        kinds.chain(left).chain(kept).collect()
    }
}
