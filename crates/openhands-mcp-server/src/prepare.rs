//! The directory of a task, made ready on the agent server's side: only its file system knows where
//! links lead, and only its git can say later what the agent changed.

use mcp_core::tool::{ToolError, ToolErrorKind};
use uuid::Uuid;

use crate::OpenHands;
use crate::api::{Failure, quoted};
use crate::changes;
use crate::order::Order;
use crate::repository::Repository;
use crate::task_id::TaskId;
use crate::workspace;

/// Seconds that fetching a repository may take.
const FETCH_SECONDS: u64 = 900;

/// Exit codes of the scripts below.
const LINK: i32 = 73;
const NO_DIRECTORY: i32 = 74;

/// A directory that is ready, or will be.
pub(crate) struct Place {
    /// Absolute.
    pub(crate) directory: String,
    /// The git tree that it held; none where git is not there, or not yet.
    pub(crate) base: Option<String>,
    /// The command that still fetches its repository.
    pub(crate) fetch: Option<Uuid>,
}

impl OpenHands {
    /// Makes the directory of a task and puts into it what the order brings.
    ///
    /// # Errors
    /// When the directory is not allowed or cannot be made; says what to do.
    pub(crate) async fn prepare(&self, id: TaskId, order: &Order) -> Result<Place, ToolError> {
        let roots = self.roots().await?;
        let own = || workspace::own(roots.first().map_or("", String::as_str), id);
        let Some(named) = &order.workspace else {
            let directory = own();
            self.upload(&directory, order).await?;
            return Ok(match &order.repository {
                Some(repository) => self.fetch(directory, repository).await?,
                None => self.own(directory).await?,
            });
        };
        let Some((root, rest)) = named.below(&roots) else {
            return Err(not_allowed());
        };
        let place = self.named(root, rest, order).await?;
        self.upload(&place.directory, order).await?;
        Ok(place)
    }

    /// The roots below which tasks may work, absolute.
    pub(crate) async fn roots(&self) -> Result<Vec<String>, Failure> {
        let is_relative = self.roots.iter().any(|root| root.is_relative());
        let home = match is_relative {
            true => self.agent_server().await?.home().await?,
            false => String::new(),
        };
        Ok(self.roots.iter().map(|root| root.path(&home)).collect())
    }

    async fn upload(&self, directory: &str, order: &Order) -> Result<(), Failure> {
        for (name, content) in &order.files {
            let path = format!("{directory}/{}", name.as_str());
            self.agent_server()
                .await?
                .upload(&path, content.clone())
                .await?;
        }
        Ok(())
    }

    /// A directory of the task's own. It is new, so no link can lead out of it; a repository of its
    /// own keeps the agent's commits out of one that may be around it.
    async fn own(&self, directory: String) -> Result<Place, ToolError> {
        let script = format!(
            "mkdir -p -- {dir} && cd -P -- {dir} || exit {NO_DIRECTORY}\n\
             command -v git >/dev/null || exit 0\n\
             [ -e .git ] || git init -q\n{}",
            changes::snapshot(),
            dir = quoted(&directory),
        );
        let printed = self.agent_server().await?.execute(&script).await?;
        if printed.exit_code == Some(NO_DIRECTORY) {
            return Err(no_directory());
        }
        Ok(Place {
            directory,
            base: base(printed.text()),
            fetch: None,
        })
    }

    /// A directory that the caller names. It may be older than the task, so every part of the way
    /// to it, and to the files that are put into it, must be what it seems to be.
    async fn named(&self, root: &str, rest: &str, order: &Order) -> Result<Place, ToolError> {
        let files = order.files.iter().map(|(name, _)| quoted(name.as_str()));
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
            changes::snapshot(),
            root = quoted(root),
            rest = quoted(rest),
        );
        let printed = self.agent_server().await?.execute(&script).await?;
        match printed.exit_code {
            Some(LINK) => return Err(link()),
            Some(NO_DIRECTORY) => return Err(no_directory()),
            _ => {}
        }
        let (directory, rest) = match printed.text().split_once('\n') {
            Some((directory, rest)) if directory.starts_with('/') => (directory, rest),
            _ => return Err(no_directory()),
        };
        Ok(Place {
            directory: directory.to_owned(),
            base: base(rest),
            fetch: None,
        })
    }

    /// Starts fetching the repository into a directory of the task's own. Files that are there
    /// already win over those of the repository. Depth 1 where the other side can do it.
    async fn fetch(&self, directory: String, from: &Repository) -> Result<Place, ToolError> {
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
        let fetch = self
            .agent_server()
            .await?
            .execute_later(&script, FETCH_SECONDS)
            .await?;
        Ok(Place {
            directory,
            base: None,
            fetch: Some(fetch),
        })
    }
}

/// The last line that a script printed, where it is an id of git's.
pub(crate) fn base(printed: &str) -> Option<String> {
    let last = printed.trim_end().lines().next_back()?;
    let is_id = last.len() >= 40 && last.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| last.to_owned())
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
