//! Directories in which tasks may work, and their set-up. It runs as a script on the machine of the agent server, because
//! only there can symbolic links be resolved and git record the initial state.

use hmac_sha256::Hash;
use mcp_core::tool::ToolError;
use upstream::text::{hexadecimal, one_line, visible};

use super::worktree::worktree_branch;
use crate::api::tags::tag;
use crate::api::{
    AgentServer, ApiResult, FileName, NewConversation, ScriptOutput, TaskId, shell_quoted,
    with_more,
};
use crate::git::{
    EXIT_NO_DIRECTORY, GitHosts, Repository, gaps, gaps_script, reason, snapshot_or_reason,
    snapshot_script, start_fetch,
};

/// Checks a directory on the machine of the agent server below which tasks may work. A relative one is below
/// the agent server's home directory.
///
/// # Errors
/// `root` cannot hold other directories safely.
pub(crate) fn check_root(root: &str) -> Result<String, &'static str> {
    let root = root.trim_end_matches('/');
    let mut parts = root.split('/').skip_while(|part| part.is_empty());
    if root.is_empty() || parts.any(|part| matches!(part, "" | "." | "..")) {
        return Err("must be a directory without '.' or '..', and not '/'");
    }
    if root.chars().any(char::is_control) {
        return Err("must not contain control characters");
    }
    Ok(root.to_owned())
}

/// A directory from a caller. A relative one is below the root of tasks; an absolute one must be below
/// a root that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory(String);

impl Directory {
    /// # Errors
    /// `name` could refer to another place than it seems to.
    pub(crate) fn new(name: &str) -> Result<Self, &'static str> {
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        let relative = trimmed.strip_prefix('/').unwrap_or(trimmed);
        FileName::new(relative).map_err(|reason| match reason {
            "must be relative to the task's directory" => {
                "must not begin with '~', '//' or a drive"
            }
            reason => reason,
        })?;
        // Files of this server, and the directories of other principals.
        if relative.split('/').any(|part| part.starts_with(".mcp-")) {
            return Err("must not begin with .mcp-");
        }
        // The terminal of OpenHands has the name in its prompt, in which a shell expands them.
        if trimmed.contains(['$', '`']) {
            return Err("must not contain '$' or '`'");
        }
        Ok(Self(trimmed.to_owned()))
    }

    /// The root that contains the directory, and its path below that root; `None` if no root does.
    /// `roots` are absolute; the first one is the root of tasks.
    pub(crate) fn below<'a>(&'a self, roots: &'a [String]) -> Option<(&'a str, &'a str)> {
        if !self.0.starts_with('/') {
            return roots.first().map(|root| (root.as_str(), self.0.as_str()));
        }
        let inside = |root: &'a String| {
            let rest = self.0.strip_prefix(root.as_str())?;
            // Whole path segments only: /srv/tasks does not allow /srv/tasks-old.
            let rest = match rest.strip_prefix('/') {
                Some(rest) => rest,
                None if rest.is_empty() => ".",
                None => return None,
            };
            Some((root.as_str(), rest))
        };
        roots.iter().find_map(inside)
    }
}

/// Exit codes of the scripts below.
const EXIT_SYMLINK: i32 = 73;
const EXIT_NO_COMMIT: i32 = 77;
const EXIT_TOO_LONG: i32 = 78;
const EXIT_NO_FILE: i32 = 79;
const EXIT_OTHER_CONTENT: i32 = 80;
/// Characters of the name of a file in an error.
const MAX_NAME_CHARS: usize = 120;
/// Less than the timeout of a script, because git removes what it has written only if it is told to stop.
const WORKTREE_SECONDS: u32 = 8;
/// The timeout of the snapshot of the initial content.
const SNAPSHOT_SECONDS: u64 = 8;
/// The directory of snapshots, below the root of tasks.
const SNAPSHOTS: &str = ".mcp-snapshots";

/// The requested workspace of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkspaceSpec {
    /// `None` for a new directory.
    pub(crate) directory: Option<Directory>,
    /// Work in a new worktree of the repository in `directory`.
    pub(crate) has_worktree: bool,
    /// Files of that directory which are copied into the worktree.
    pub(crate) worktree_files: Vec<FileName>,
    /// Files to upload, with their content.
    pub(crate) files: Vec<(FileName, Vec<u8>)>,
    pub(crate) repository: Option<Repository>,
    /// The commits of all branches that are fetched, 0 for all; `None` for one commit of one branch.
    pub(crate) depth: Option<u32>,
}

/// The parts of a repository that a worktree of it lacks.
const UNCOMMITTED: &str = "changes in workspace that are not committed";

/// The absolute paths of the roots below which tasks may work.
pub(crate) async fn absolute_roots(
    server: &AgentServer,
    roots: &[String],
) -> ApiResult<Vec<String>> {
    let is_relative = |root: &String| !root.starts_with('/');
    let mut home = String::new();
    if roots.iter().any(is_relative) {
        home = server.home().await?;
    }
    let absolute = |root: &String| match is_relative(root) {
        true => format!("{}/{root}", home.trim_end_matches('/')),
        false => root.clone(),
    };
    Ok(roots.iter().map(absolute).collect())
}

/// The place of a task on the machine of the agent server.
pub(crate) struct Place {
    pub(crate) id: TaskId,
    /// Absolute; a new directory is made below the first one.
    pub(crate) roots: Vec<String>,
    /// The directory of the initial snapshots of all tasks.
    pub(crate) store: String,
    /// The new directory, also that of a worktree.
    pub(crate) own: String,
}

impl Place {
    /// The place of a task below `roots`, whose new directory is named `name`. `shared_root` is the root of the tasks of
    /// all principals.
    pub(crate) fn new(id: TaskId, roots: Vec<String>, shared_root: &str, name: &str) -> Self {
        let root = roots.first().map_or("", String::as_str);
        Self {
            id,
            own: format!("{root}/{name}"),
            store: format!("{shared_root}/{SNAPSHOTS}"),
            roots,
        }
    }

    /// Creates the directory of a task with its files or repository, and completes the conversation with it and the tags
    /// of it. `traces` gets what is left in a directory that the caller names, also if it fails.
    ///
    /// # Errors
    /// The directory is not allowed or cannot be created; the error says what to do.
    pub(crate) async fn set_up(
        &self,
        server: &AgentServer,
        spec: &WorkspaceSpec,
        hosts: &GitHosts,
        new: &mut NewConversation,
        traces: &mut Traces,
    ) -> Result<(), ToolError> {
        new.tags.set_if_short(tag::SNAPSHOTS, Some(&self.store));
        if let Some(named) = &spec.directory {
            new.working_dir = self.use_named(server, named, spec, new, traces).await?;
            return self.snapshot(server, new).await;
        }
        new.working_dir.clone_from(&self.own);
        upload(server, &self.own, &spec.files).await?;
        let Some(repository) = &spec.repository else {
            // A new git repository keeps the commits of the agent out of any repository around it.
            let script = format!(
                "mkdir -p -- {dir} && cd -P -- {dir} || exit {EXIT_NO_DIRECTORY}\n\
                 command -v git >/dev/null || exit 0\n\
                 [ -e .git ] || git init -q\n",
                dir = shell_quoted(&self.own),
            );
            run(server, &script).await?;
            return self.snapshot(server, new).await;
        };
        let from = (repository, spec.depth);
        let (fetch, branch) = start_fetch(server, (&self.own, &self.store), from, hosts).await?;
        new.tags.set_fetch(Some(fetch));
        new.tags.set_if_short(tag::BRANCH, branch.as_deref());
        let repository = format!("{} {}", repository.url, branch.unwrap_or_default());
        new.tags.set_if_short(tag::REPOSITORY, Some(&repository));
        Ok(())
    }

    /// Creates or reuses the directory that the caller names, or makes a worktree of it. An existing one may
    /// hold symbolic links, so its path and the paths of all uploaded files must not contain any. A directory that
    /// existed without git stays without it. Returns the directory of the task.
    async fn use_named(
        &self,
        server: &AgentServer,
        named: &Directory,
        spec: &WorkspaceSpec,
        new: &mut NewConversation,
        traces: &mut Traces,
    ) -> Result<String, ToolError> {
        let (root, rest) = named.below(&self.roots).ok_or_else(|| {
            ToolError::forbidden(
                "workspace is outside of the directories that this server allows. Use a relative \
                 one, such as my-project, or have the operator allow its directory \
                 (OPENHANDS_WORKSPACES).",
            )
        })?;
        let mut worktree = None;
        if spec.has_worktree {
            worktree = Some(worktree_script(&self.own, self.id, &spec.worktree_files));
            traces.add_worktree(&format!("{root}/{rest}"), &self.own, self.id);
            let branch = worktree_branch(self.id);
            new.tags.set_if_short(tag::BRANCH, Some(&branch));
        }
        let script = named_script(root, rest, &spec.files, worktree);
        let printed = run(server, &script).await?;
        let mut lines = printed.text().lines();
        let directory = lines.next().filter(|line| line.starts_with('/'));
        let directory = directory.ok_or_else(no_directory)?;
        let mut next = || lines.next().filter(|line| !line.is_empty());
        new.tags.set_if_short(tag::WORKTREE_OF, next());
        let uncommitted = next().map(|_| UNCOMMITTED.to_owned());
        let left_out = uncommitted.into_iter().chain(gaps(printed.text()));
        let left_out = left_out.reduce(|all, one| format!("{all}; {one}"));
        new.tags.set_line(tag::GAPS, left_out.as_deref());
        let new_files = next().unwrap_or_default().split_ascii_whitespace();
        for at in new_files.filter_map(|at| at.parse::<usize>().ok()) {
            if let Some((name, content)) = spec.files.get(at) {
                traces.add_file(directory, name.as_str(), &hexadecimal(&Hash::hash(content)));
            }
        }
        upload(server, directory, &spec.files).await?;
        Ok(directory.to_owned())
    }

    /// Records the initial content of the directory. Without git, or if it takes too long, there is no snapshot.
    async fn snapshot(
        &self,
        server: &AgentServer,
        new: &mut NewConversation,
    ) -> Result<(), ToolError> {
        let script = format!(
            "cd -P -- {} || exit {EXIT_NO_DIRECTORY}\n\
             command -v git >/dev/null || exit 0\n{}",
            shell_quoted(&new.working_dir),
            snapshot_script(&self.store, SNAPSHOT_SECONDS),
        );
        let printed = server.run_script(&script).await?;
        if printed.exit_code == Some(EXIT_NO_DIRECTORY) {
            return Err(no_directory());
        }
        let base = snapshot_or_reason(&printed);
        new.tags.set_line(tag::BASE, base.as_deref());
        Ok(())
    }
}

async fn upload(
    server: &AgentServer,
    directory: &str,
    files: &[(FileName, Vec<u8>)],
) -> Result<(), ToolError> {
    for (name, content) in files {
        let name = name.as_str();
        let path = format!("{directory}/{name}");
        let uploaded = server.upload(&path, content.clone());
        uploaded.await.map_err(|failure| match failure.is_name_taken() {
            true => ToolError::conflict(format!(
                "context: {name} cannot be written: it is a directory in the workspace, or a part \
                 of its path is a file. Give it another name."
            )),
            false => failure.into(),
        })?;
    }
    Ok(())
}

/// Commands that make a worktree of the repository in the current directory, copy `files` into it, and set `dir` to it.
/// Tasks with worktrees of one repository share its branches, and each has a branch and files of its own.
fn worktree_script(own: &str, id: TaskId, files: &[FileName]) -> String {
    let files = files.iter().map(|name| shell_quoted(name.as_str()));
    format!(
        "git rev-parse --verify 'HEAD^{{commit}}' >/dev/null && ! git check-ignore -q . \
         || exit {EXIT_NO_COMMIT}\n\
         from=$dir below=$(git rev-parse --show-prefix)\n\
         for file in {files}; do\n\
         [ \"$(realpath -m -- \"$from/$file\")\" = \"$from/$file\" ] || exit {EXIT_SYMLINK}\n\
         [ -e \"$from/$file\" ] || {{ printf '%s' \"$file\" >&2; exit {EXIT_NO_FILE}; }}\n\
         done\n\
         [ -z \"$(GIT_OPTIONAL_LOCKS=0 git status --porcelain --untracked-files=no | head -c 1)\" ] || gaps=1\n\
         # It exists after an attempt that was cut off, and then has no commit of its own.\n\
         git worktree list --porcelain | sed -n 's/^worktree //p' | while read -r other; do\n\
         case ${{other##*/}} in {id}-*) git -c core.hooksPath=/dev/null worktree remove -- \"$other\" ;; esac\n\
         done >/dev/null 2>&1\n\
         newest=\n\
         if git rev-parse -q --verify refs/heads/{branch} >/dev/null; then\n\
         set -- -f {own} {branch}\n\
         ! git merge-base --is-ancestor {branch} HEAD || newest=$(git rev-parse HEAD)\n\
         else set -- -b {branch} {own} HEAD; fi\n\
         [ -e {own}/.git ] || timeout {WORKTREE_SECONDS} git -c core.hooksPath=/dev/null worktree add -q \
         \"$@\" >/dev/null\n\
         case $? in 0) ;; 124) exit {EXIT_TOO_LONG} ;; *) exit {EXIT_NO_COMMIT} ;; esac\n\
         cd -P -- {own} && dir=$(pwd) || exit {EXIT_NO_DIRECTORY}\n\
         [ -z \"$newest\" ] || git reset -q --hard \"$newest\"\n\
         left_out=$({gaps})\n\
         for file in {files}; do\n\
         to=$dir/$below$file\n\
         [ \"$(realpath -m -- \"$to\")\" = \"$to\" ] || exit {EXIT_SYMLINK}\n\
         mkdir -p -- \"$(dirname -- \"$to\")\" && cp -aT -- \"$from/$file\" \"$to\" \
         || exit {EXIT_NO_DIRECTORY}\n\
         done\n\
         check\n",
        files = files.collect::<Vec<_>>().join(" "),
        gaps = gaps_script(),
        own = shell_quoted(own),
        branch = worktree_branch(id),
    )
}

/// The script that creates or reuses the directory `rest` below `root`. It prints the directory of the task, and, or empty
/// lines, the directory of the repository of its worktree, a mark if that has changes which are not in the worktree, the
/// places of the files that did not exist, and the lines of [`gaps`].
fn named_script(
    root: &str,
    rest: &str,
    files: &[(FileName, Vec<u8>)],
    worktree: Option<String>,
) -> String {
    let names = files.iter().map(|(name, _)| shell_quoted(name.as_str()));
    let names = names.collect::<Vec<_>>().join(" ");
    // A worktree is a directory of the task alone, and git has what is overwritten there.
    let kept = files.iter().enumerate().filter(|_| worktree.is_none());
    let kept = kept.map(|(at, (name, content))| {
        format!(
            "keep {} {} {at}\n",
            shell_quoted(name.as_str()),
            hexadecimal(&Hash::hash(content))
        )
    });
    format!(
        "mkdir -p -- {root} && root=$(cd -P -- {root} && pwd) || exit {EXIT_NO_DIRECTORY}\n\
         rest={rest}\n\
         if [ \"$rest\" = . ]; then dir=$root; else dir=$root/$rest; fi\n\
         [ \"$(realpath -m -- \"$dir\")\" = \"$dir\" ] || exit {EXIT_SYMLINK}\n\
         check() {{ for file in {names}; do\n\
         [ \"$(realpath -m -- \"$dir/$file\")\" = \"$dir/$file\" ] || exit {EXIT_SYMLINK}\n\
         done; }}\n\
         check\n\
         # No copy would be left of a file that is overwritten.\n\
         new= from= gaps= left_out=\n\
         keep() {{\n\
         [ -e \"$dir/$1\" ] || {{ new=\"$new $3\"; return; }}\n\
         [ ! -f \"$dir/$1\" ] || [ \"$(sha256sum <\"$dir/$1\" | cut -c 1-64)\" = \"$2\" ] && return\n\
         printf '%s' \"$1\" >&2; exit {EXIT_OTHER_CONTENT}\n\
         }}\n\
         {kept}\
         existed=; [ ! -e \"$dir\" ] || existed=1\n\
         mkdir -p -- \"$dir\" && cd -P -- \"$dir\" || exit {EXIT_NO_DIRECTORY}\n\
         [ \"$(pwd)\" = \"$dir\" ] || exit {EXIT_SYMLINK}\n\
         {worktree}\
         printf '%s\\n' \"$dir\" \"$from\" \"$gaps\" \"$new\" \"$left_out\"\n\
         [ -z \"$existed\" ] && command -v git >/dev/null || exit 0\n\
         git rev-parse -q --is-inside-work-tree >/dev/null 2>&1 && ! git check-ignore -q . \
         || git init -q\n",
        root = shell_quoted(root),
        rest = shell_quoted(rest),
        kept = kept.collect::<String>(),
        worktree = worktree.unwrap_or_default(),
    )
}

/// Runs a set-up script and returns its output.
async fn run(server: &AgentServer, script: &str) -> Result<ScriptOutput, ToolError> {
    let printed = server.run_script(script).await?;
    let name = || one_line(&visible(printed.error()), MAX_NAME_CHARS);
    match printed.exit_code {
        Some(EXIT_SYMLINK) => Err(ToolError::forbidden(
            "workspace, or a file of context in it, is reached through a symbolic link, which could \
             lead out of it. Name the directory itself.",
        )),
        Some(EXIT_NO_DIRECTORY) => Err(no_directory()),
        Some(EXIT_NO_COMMIT) => Err(ToolError::conflict(format!(
            "worktree: git cannot make one: workspace holds no repository with a commit, or git cannot use it. \
             Leave worktree out. Git says: {}",
            reason(printed.error())
        ))),
        Some(EXIT_NO_FILE) => Err(ToolError::not_found(format!(
            "worktree_files: there is no {} in workspace.",
            name()
        ))),
        Some(EXIT_OTHER_CONTENT) => Err(ToolError::conflict(format!(
            "context: {} is in workspace with other content, which would be lost. Nothing was written. Give the file \
             another name, or tell the agent how to change it.",
            name()
        ))),
        // -1 is a timeout. A directory that is printed can be used.
        None | Some(EXIT_TOO_LONG | -1) if !printed.text().contains('\n') => {
            Err(ToolError::conflict(
                "workspace: git took too long in it, or the copy of worktree_files. Name a directory with \
                 fewer files, or leave worktree out.",
            ))
        }
        _ => Ok(printed),
    }
}

fn no_directory() -> ToolError {
    ToolError::conflict(
        "The task's directory cannot be created on the agent server: it is a file, or not writable. \
         Name another workspace, or have the operator set OPENHANDS_WORKSPACE_ROOT.",
    )
}

/// Characters of the names of traces in an error.
const MAX_TRACES_CHARS: usize = 400;

/// Traces of a start in the workspace that its caller has named: a script that removes them if no task comes of it, and
/// their names.
#[derive(Default)]
pub(crate) struct Traces {
    script: String,
    names: Vec<String>,
}

impl Traces {
    /// Adds a worktree `own` of the repository in `workspace`, which may be made soon. A branch with commits of its own, or
    /// that another worktree uses, stays.
    fn add_worktree(&mut self, workspace: &str, own: &str, id: TaskId) {
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
    fn add_file(&mut self, directory: &str, name: &str, sum: &str) {
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
        let names = one_line(&self.names.join(", "), MAX_TRACES_CHARS);
        let more = format!("If there is no task, {names} may be left: remove by hand.");
        with_more(error, &more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_a_plain_directory() {
        assert_eq!(check_root("mcp-tasks/"), Ok("mcp-tasks".to_owned()));
        assert_eq!(check_root("/srv/tasks"), Ok("/srv/tasks".to_owned()));
        for bad in ["", "/", "..", "/a/../b", "./a", "/a//b", "a\n"] {
            assert!(check_root(bad).is_err(), "{bad:?}");
        }
    }
}
