//! Traces of a start in the workspace that its caller has named. They are taken back if no task comes of it.

use mcp_core::tool::ToolError;
use upstream::text::one_line;

use super::worktree::worktree_branch;
use crate::api::{AgentServer, TaskId, shell_quoted};

/// Characters of their names in an error.
const MAX_NAMES_CHARS: usize = 400;

/// A script that removes the traces, and their names.
#[derive(Default)]
pub(crate) struct Traces {
    script: String,
    names: Vec<String>,
}

impl Traces {
    /// Adds a worktree `own` of the repository in `workspace`, which may be made soon. A branch with commits of its own, or
    /// that another worktree uses, stays.
    pub(super) fn add_worktree(&mut self, workspace: &str, own: &str, id: TaskId) {
        let branch = worktree_branch(id);
        self.script += &format!(
            "(cd -P -- {workspace} && git rev-parse --git-dir || exit 0\n\
             run() {{ git -c core.hooksPath=/dev/null \"$@\"; }}\n\
             [ ! -e {own} ] || run worktree remove --force -- {own} || exit 1\n\
             ! run rev-parse -q --verify refs/heads/{branch} || ! run merge-base --is-ancestor {branch} HEAD \
             || run branch -q -D {branch}\n\
             exit 0) >/dev/null 2>&1 || exit 1\n",
            workspace = shell_quoted(workspace),
            own = shell_quoted(own),
        );
        let name = format!("the worktree {own} with the branch {branch}");
        self.names.push(name);
    }

    /// Adds a file that did not exist, with the SHA-256 of its content. `directory` has no symbolic links.
    pub(super) fn add_file(&mut self, directory: &str, name: &str, sum: &str) {
        let path = format!("{directory}/{name}");
        self.script += &format!(
            "file={}\n\
             if [ \"$(realpath -m -- \"$file\")\" = \"$file\" ] && [ -f \"$file\" ] \
             && [ \"$(sha256sum <\"$file\" | cut -c 1-64)\" = {sum} ]; then\n\
             rm -f -- \"$file\" || exit 1\n\
             fi\n",
            shell_quoted(&path)
        );
        self.names.push(format!("the file {path}"));
    }

    /// Removes them, because no task has been created. Returns the error of the start, which names them if that fails.
    pub(crate) async fn take_back(self, server: &AgentServer, error: ToolError) -> ToolError {
        if self.script.is_empty() {
            return error;
        }
        match server.run_script(&self.script).await {
            Ok(printed) if printed.exit_code == Some(0) => error,
            printed => {
                tracing::warn!(?printed, "cannot take back what a start has left");
                self.named(error)
            }
        }
    }

    /// The error of a start that may have left them.
    pub(crate) fn named(&self, error: ToolError) -> ToolError {
        if self.names.is_empty() {
            return error;
        }
        let message = format!(
            "{} If there is no task, {} may be left: remove by hand.",
            error.message(),
            one_line(&self.names.join(", "), MAX_NAMES_CHARS)
        );
        ToolError::new(error.kind(), message).caused_by(error)
    }
}
