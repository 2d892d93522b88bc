//! Directories in which tasks may work, and their set-up. It runs as a script on the machine of the agent server, because
//! only there can symbolic links be resolved and git record the initial state.

use std::fmt;

use hmac_sha256::Hash;
use mcp_core::tool::ToolError;
use upstream::text::{hexadecimal, one_line, visible};
use uuid::Uuid;

use super::traces::Traces;
use super::worktree::worktree_branch;
use crate::api::{AgentServer, ApiResult, FileName, ScriptOutput, TaskId, shell_quoted};
use crate::git::{
    EXIT_NO_DIRECTORY, GitHosts, Repository, printed_id, reason, snapshot_script, start_fetch,
};

/// A directory on the machine of the agent server below which tasks may work. A relative one is below
/// the agent server's home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root(String);

impl Root {
    /// # Errors
    /// `root` cannot hold other directories safely.
    pub(crate) fn new(root: &str) -> Result<Self, &'static str> {
        let root = root.trim_end_matches('/');
        let mut parts = root.split('/').skip_while(|part| part.is_empty());
        if root.is_empty() || parts.any(|part| matches!(part, "" | "." | "..")) {
            return Err("must be a directory without '.' or '..', and not '/'");
        }
        if root.chars().any(char::is_control) {
            return Err("must not contain control characters");
        }
        Ok(Self(root.to_owned()))
    }

    /// Returns true if the path depends on the agent server's home directory.
    pub(crate) fn is_relative(&self) -> bool {
        !self.0.starts_with('/')
    }

    /// The absolute path; `home` is the agent server's home directory.
    pub(crate) fn path(&self, home: &str) -> String {
        if self.is_relative() {
            format!("{}/{}", home.trim_end_matches('/'), self.0)
        } else {
            self.0.clone()
        }
    }
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
    pub(crate) files: Vec<(FileName, FileContent)>,
    pub(crate) repository: Option<Repository>,
    /// The commits of all branches that are fetched, 0 for all; `None` for one commit of one branch.
    pub(crate) depth: Option<u32>,
}

/// The content of an uploaded file. Its `Debug` is that of a text where it is one, which fingerprints
/// depend on.
#[derive(Clone)]
pub(crate) struct FileContent(pub(crate) Vec<u8>);

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) => fmt::Debug::fmt(text, f),
            Err(_) => fmt::Debug::fmt(&self.0, f),
        }
    }
}

/// A directory that is set up, or still fetches its repository.
#[derive(Default)]
pub(crate) struct Workspace {
    /// Absolute.
    pub(crate) directory: String,
    /// The git snapshot of its initial content; `None` without git, and while it is being fetched.
    pub(crate) base: Option<String>,
    /// The id of the script that fetches its repository.
    pub(crate) fetch: Option<Uuid>,
    /// The branch of its repository or worktree, if it is known.
    pub(crate) branch: Option<String>,
    /// The directory of the repository that its worktree belongs to.
    pub(crate) worktree_of: Option<String>,
    /// The parts of its repository that are not there.
    pub(crate) gaps: Option<&'static str>,
}

/// The parts of a repository that a worktree of it lacks.
const UNCOMMITTED: &str = "changes in workspace that are not committed";

/// The absolute paths of the roots below which tasks may work.
pub(crate) async fn absolute_roots(server: &AgentServer, roots: &[Root]) -> ApiResult<Vec<String>> {
    let is_relative = roots.iter().any(Root::is_relative);
    let home = if is_relative {
        server.home().await?
    } else {
        String::new()
    };
    Ok(roots.iter().map(|root| root.path(&home)).collect())
}

/// The directory of the initial snapshots of all tasks below this root.
pub(crate) fn snapshots(root: &str) -> String {
    format!("{root}/{SNAPSHOTS}")
}

/// Creates the directory of a task with its files or repository; a new one is named `name`. `roots` are absolute. The
/// snapshot of its content, with these files, is kept in the directory `store`. `traces` gets what is left in a directory
/// that the caller names, also if it fails.
///
/// # Errors
/// The directory is not allowed or cannot be created; the error says what to do.
pub(crate) async fn set_up(
    server: &AgentServer,
    (roots, store): (&[String], &str),
    (id, name): (TaskId, &str),
    spec: &WorkspaceSpec,
    hosts: &GitHosts,
    traces: &mut Traces,
) -> Result<Workspace, ToolError> {
    if let Some(named) = &spec.directory {
        let (root, rest) = named.below(roots).ok_or_else(|| {
            ToolError::forbidden(
                "workspace is outside of the directories that this server allows. Use a relative \
                 one, such as my-project, or have the operator allow its directory \
                 (OPENHANDS_WORKSPACES).",
            )
        })?;
        let own_root = roots.first().map_or("", String::as_str);
        let own = format!("{own_root}/{name}");
        let worktree = spec
            .has_worktree
            .then(|| worktree_script(&own, id, &spec.worktree_files));
        if spec.has_worktree {
            traces.add_worktree(&format!("{root}/{rest}"), &own, id);
        }
        let named = named_directory(server, root, rest, &spec.files, worktree).await?;
        for (name, FileContent(content)) in
            named.new_files.iter().filter_map(|at| spec.files.get(*at))
        {
            let sum = hexadecimal(&Hash::hash(content));
            traces.add_file(&named.directory, name.as_str(), &sum);
        }
        upload(server, &named.directory, &spec.files).await?;
        let workspace = snapshot(server, named.directory, store).await?;
        return Ok(Workspace {
            branch: spec.has_worktree.then(|| worktree_branch(id)),
            worktree_of: named.worktree_of,
            gaps: named.is_partial.then_some(UNCOMMITTED),
            ..workspace
        });
    }
    let root = roots.first().map_or("", String::as_str);
    let directory = format!("{root}/{name}");
    upload(server, &directory, &spec.files).await?;
    let Some(repository) = &spec.repository else {
        new_directory(server, &directory).await?;
        return snapshot(server, directory, store).await;
    };
    let from = (repository, spec.depth);
    let (fetch, branch) = start_fetch(server, (root, store), name, from, hosts).await?;
    Ok(Workspace {
        directory,
        fetch: Some(fetch),
        branch,
        ..Workspace::default()
    })
}

async fn upload(
    server: &AgentServer,
    directory: &str,
    files: &[(FileName, FileContent)],
) -> Result<(), ToolError> {
    for (name, content) in files {
        let name = name.as_str();
        let path = format!("{directory}/{name}");
        let uploaded = server.upload(&path, content.0.clone());
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

/// Creates a new directory for the task. It is new, so it has no symbolic links. A new git repository
/// in it keeps the agent's commits out of any repository around it.
async fn new_directory(server: &AgentServer, directory: &str) -> Result<(), ToolError> {
    let script = format!(
        "mkdir -p -- {dir} && cd -P -- {dir} || exit {EXIT_NO_DIRECTORY}\n\
         command -v git >/dev/null || exit 0\n\
         [ -e .git ] || git init -q\n",
        dir = shell_quoted(directory),
    );
    run(server, &script).await.map(drop)
}

/// Records the initial content of the directory. Without git, or if it takes too long, there is no snapshot.
async fn snapshot(
    server: &AgentServer,
    directory: String,
    store: &str,
) -> Result<Workspace, ToolError> {
    let script = format!(
        "cd -P -- {} || exit {EXIT_NO_DIRECTORY}\n\
         command -v git >/dev/null || exit 0\n{}",
        shell_quoted(&directory),
        snapshot_script(store, SNAPSHOT_SECONDS),
    );
    let printed = server.run_script(&script).await?;
    if printed.exit_code == Some(EXIT_NO_DIRECTORY) {
        return Err(no_directory());
    }
    Ok(Workspace {
        directory,
        base: printed_id(printed.text()),
        ..Workspace::default()
    })
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
         for file in {files}; do\n\
         to=$dir/$below$file\n\
         [ \"$(realpath -m -- \"$to\")\" = \"$to\" ] || exit {EXIT_SYMLINK}\n\
         mkdir -p -- \"$(dirname -- \"$to\")\" && cp -aT -- \"$from/$file\" \"$to\" \
         || exit {EXIT_NO_DIRECTORY}\n\
         done\n\
         check\n",
        files = files.collect::<Vec<_>>().join(" "),
        own = shell_quoted(own),
        branch = worktree_branch(id),
    )
}

/// The directory of a task that its caller has named, or a worktree of it.
struct NamedDirectory {
    /// Absolute.
    directory: String,
    /// The directory of the repository of the worktree.
    worktree_of: Option<String>,
    /// Changes in that are not in the worktree.
    is_partial: bool,
    /// The places of the files that did not exist.
    new_files: Vec<usize>,
}

/// Creates or reuses the directory that the caller names, and the worktree of it. An existing one may
/// hold symbolic links, so its path and the paths of all uploaded files must not contain any. A directory that
/// existed without git stays without it.
async fn named_directory(
    server: &AgentServer,
    root: &str,
    rest: &str,
    files: &[(FileName, FileContent)],
    worktree: Option<String>,
) -> Result<NamedDirectory, ToolError> {
    let names = files.iter().map(|(name, _)| shell_quoted(name.as_str()));
    let names = names.collect::<Vec<_>>().join(" ");
    // A worktree is a directory of the task alone, and git has what is overwritten there.
    let kept = files.iter().enumerate().filter(|_| worktree.is_none());
    let kept = kept.map(|(at, (name, FileContent(content)))| {
        format!(
            "keep {} {} {at}\n",
            shell_quoted(name.as_str()),
            hexadecimal(&Hash::hash(content))
        )
    });
    let script = format!(
        "mkdir -p -- {root} && root=$(cd -P -- {root} && pwd) || exit {EXIT_NO_DIRECTORY}\n\
         rest={rest}\n\
         if [ \"$rest\" = . ]; then dir=$root; else dir=$root/$rest; fi\n\
         [ \"$(realpath -m -- \"$dir\")\" = \"$dir\" ] || exit {EXIT_SYMLINK}\n\
         check() {{ for file in {names}; do\n\
         [ \"$(realpath -m -- \"$dir/$file\")\" = \"$dir/$file\" ] || exit {EXIT_SYMLINK}\n\
         done; }}\n\
         check\n\
         # No copy would be left of a file that is overwritten.\n\
         new= from= gaps=\n\
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
         printf '%s\\n%s\\n%s\\n%s\\n' \"$dir\" \"$from\" \"$gaps\" \"$new\"\n\
         [ -z \"$existed\" ] && command -v git >/dev/null || exit 0\n\
         git rev-parse -q --is-inside-work-tree >/dev/null 2>&1 && ! git check-ignore -q . \
         || git init -q\n",
        root = shell_quoted(root),
        rest = shell_quoted(rest),
        kept = kept.collect::<String>(),
        worktree = worktree.unwrap_or_default(),
    );
    let printed = run(server, &script).await?;
    let mut lines = printed.text().lines();
    let directory = lines.next().filter(|line| line.starts_with('/'));
    let mut next = || lines.next().filter(|line| !line.is_empty());
    Ok(NamedDirectory {
        directory: directory.ok_or_else(no_directory)?.to_owned(),
        worktree_of: next().map(str::to_owned),
        is_partial: next().is_some(),
        new_files: next().map_or_else(Vec::new, |places| {
            let places = places.split_ascii_whitespace();
            places.filter_map(|at| at.parse().ok()).collect()
        }),
    })
}

/// Runs a set-up script and returns its output.
async fn run(server: &AgentServer, script: &str) -> Result<ScriptOutput, ToolError> {
    let printed = server.run_script(script).await?;
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
            one_line(&visible(printed.error()), MAX_NAME_CHARS)
        ))),
        Some(EXIT_OTHER_CONTENT) => Err(ToolError::conflict(format!(
            "context: {} is in workspace with other content, which would be lost. Nothing was written. Give the file \
             another name, or tell the agent how to change it.",
            one_line(&visible(printed.error()), MAX_NAME_CHARS)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_a_plain_directory() {
        let root = Root::new("mcp-tasks/").unwrap();
        assert!(root.is_relative());
        assert_eq!(root.path("/home/a/"), "/home/a/mcp-tasks");
        assert_eq!(Root::new("/srv/tasks").unwrap().path(""), "/srv/tasks");
        for bad in ["", "/", "..", "/a/../b", "./a", "/a//b", "a\n"] {
            assert!(Root::new(bad).is_err(), "{bad:?}");
        }
    }
}
