//! The directory of a task, made ready on the agent server's side: only its file system knows where
//! links lead, and only its git can say later what the agent changed.

use mcp_core::tool::{ToolError, ToolErrorKind};
use uuid::Uuid;

use super::changes::{printed_tree, snapshot_script};
use super::directory::{Directory, Root};
use super::file_name::FileName;
use super::repository::Repository;
use crate::api::{AgentServer, Failure, TaskId, quoted};

/// Seconds that fetching a repository may take.
const FETCH_SECONDS: u64 = 900;

/// Exit codes of the scripts below.
const LINK: i32 = 73;
const NO_DIRECTORY: i32 = 74;

/// Where a task works, and what is put there for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkspaceSpec {
    /// None for a directory of its own.
    pub(crate) directory: Option<Directory>,
    /// Files to work on and their content.
    pub(crate) files: Vec<(FileName, String)>,
    pub(crate) repository: Option<Repository>,
}

/// A directory that is ready, or will be.
pub(crate) struct Workspace {
    /// Absolute.
    pub(crate) directory: String,
    /// The git tree that it held; none where git is not there, or not yet.
    pub(crate) base: Option<String>,
    /// The command that still fetches its repository.
    pub(crate) fetch: Option<Uuid>,
}

/// The roots below which tasks may work, absolute; that of the tasks themselves first.
pub(crate) async fn absolute_roots(
    server: &AgentServer,
    roots: &[Root],
) -> Result<Vec<String>, Failure> {
    let is_relative = roots.iter().any(Root::is_relative);
    let home = match is_relative {
        true => server.home().await?,
        false => String::new(),
    };
    Ok(roots.iter().map(|root| root.path(&home)).collect())
}

/// Makes the directory of a task and puts into it what `spec` brings. `roots` are absolute.
///
/// # Errors
/// When the directory is not allowed or cannot be made; says what to do.
pub(crate) async fn set_up(
    server: &AgentServer,
    roots: &[String],
    id: TaskId,
    spec: &WorkspaceSpec,
) -> Result<Workspace, ToolError> {
    if let Some(named) = &spec.directory {
        let (root, rest) = named.below(roots).ok_or_else(not_allowed)?;
        let workspace = named_directory(server, root, rest, &spec.files).await?;
        upload(server, &workspace.directory, &spec.files).await?;
        return Ok(workspace);
    }
    let root = roots.first().map_or("", String::as_str);
    let directory = format!("{root}/{id}");
    upload(server, &directory, &spec.files).await?;
    match &spec.repository {
        Some(repository) => start_fetch(server, directory, repository).await,
        None => own_directory(server, directory).await,
    }
}

async fn upload(
    server: &AgentServer,
    directory: &str,
    files: &[(FileName, String)],
) -> Result<(), Failure> {
    for (name, content) in files {
        let path = format!("{directory}/{}", name.as_str());
        server.upload(&path, content.clone()).await?;
    }
    Ok(())
}

/// A directory of the task's own. It is new, so no link can lead out of it; a repository of its own
/// keeps the agent's commits out of one that may be around it.
async fn own_directory(server: &AgentServer, directory: String) -> Result<Workspace, ToolError> {
    let script = format!(
        "mkdir -p -- {dir} && cd -P -- {dir} || exit {NO_DIRECTORY}\n\
         command -v git >/dev/null || exit 0\n\
         [ -e .git ] || git init -q\n{}",
        snapshot_script(),
        dir = quoted(&directory),
    );
    let printed = server.execute(&script).await?;
    if printed.exit_code == Some(NO_DIRECTORY) {
        return Err(no_directory());
    }
    Ok(Workspace {
        directory,
        base: printed_tree(printed.text()),
        fetch: None,
    })
}

/// A directory that the caller names. It may be older than the task, so every part of the way to it,
/// and to the files that are put into it, must be what it seems to be.
async fn named_directory(
    server: &AgentServer,
    root: &str,
    rest: &str,
    files: &[(FileName, String)],
) -> Result<Workspace, ToolError> {
    let files = files.iter().map(|(name, _)| quoted(name.as_str()));
    let files = files.collect::<Vec<_>>().join(" ");
    let script = format!(
        "mkdir -p -- {root} && root=$(cd -P -- {root} && pwd) || exit {NO_DIRECTORY}\n\
         rest={rest}\n\
         if [ \"$rest\" = . ]; then dir=$root; else dir=$root/$rest; fi\n\
         [ \"$(realpath -m -- \"$dir\")\" = \"$dir\" ] || exit {LINK}\n\
         for file in {files}; do\n\
         [ \"$(realpath -m -- \"$dir/$file\")\" = \"$dir/$file\" ] || exit {LINK}\n\
         done\n\
         mkdir -p -- \"$dir\" && cd -P -- \"$dir\" || exit {NO_DIRECTORY}\n\
         [ \"$(pwd)\" = \"$dir\" ] || exit {LINK}\n\
         echo \"$dir\"\n\
         command -v git >/dev/null || exit 0\n\
         git rev-parse -q --is-inside-work-tree >/dev/null 2>&1 && ! git check-ignore -q . \
         || git init -q\n{}",
        snapshot_script(),
        root = quoted(root),
        rest = quoted(rest),
    );
    let printed = server.execute(&script).await?;
    match printed.exit_code {
        Some(LINK) => return Err(link()),
        Some(NO_DIRECTORY) => return Err(no_directory()),
        _ => {}
    }
    let (directory, rest) = match printed.text().split_once('\n') {
        Some((directory, rest)) if directory.starts_with('/') => (directory, rest),
        _ => return Err(no_directory()),
    };
    Ok(Workspace {
        directory: directory.to_owned(),
        base: printed_tree(rest),
        fetch: None,
    })
}

/// Starts fetching the repository into a directory of the task's own. Files that are there already
/// win over those of the repository. Depth 1 where the other side can do it.
async fn start_fetch(
    server: &AgentServer,
    directory: String,
    from: &Repository,
) -> Result<Workspace, ToolError> {
    let reference = from.branch.as_deref().unwrap_or("HEAD");
    let script = format!(
        "mkdir -p -- {dir} && cd -P -- {dir} || exit {NO_DIRECTORY}\n\
         export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:http:ssh:git\n\
         export GIT_SSH_COMMAND='ssh -oBatchMode=yes'\n\
         set -e\n\
         [ -e .git ] || git init -q\n\
         git remote add origin {url} 2>/dev/null || git remote set-url origin {url}\n\
         git fetch -q --depth 1 origin {reference} 2>/dev/null || git fetch -q origin {reference}\n\
         git update-ref refs/heads/{branch} FETCH_HEAD\n\
         git symbolic-ref HEAD refs/heads/{branch}\n\
         git read-tree HEAD\n\
         git checkout-index -a -q || true\n\
         git rev-parse 'HEAD^{{tree}}'\n",
        dir = quoted(&directory),
        url = quoted(&from.url),
        reference = quoted(reference),
        branch = quoted(from.branch.as_deref().unwrap_or("main")),
    );
    let fetch = server.execute_later(&script, FETCH_SECONDS).await?;
    Ok(Workspace {
        directory,
        base: None,
        fetch: Some(fetch),
    })
}

fn not_allowed() -> ToolError {
    ToolError::new(
        ToolErrorKind::Forbidden,
        "workspace is outside of the directories that this server allows. Use a relative one, such \
         as my-project, or have the operator allow its directory (OPENHANDS_WORKSPACES).",
    )
}

fn link() -> ToolError {
    ToolError::new(
        ToolErrorKind::Forbidden,
        "workspace, or a file of context in it, is reached through a symbolic link, which could \
         lead out of it. Name the directory itself.",
    )
}

fn no_directory() -> ToolError {
    ToolError::new(
        ToolErrorKind::Conflict,
        "The task's directory cannot be made on the agent server: it is a file, or not writable. \
         Name another workspace, or have the operator set OPENHANDS_WORKSPACE_ROOT.",
    )
}
