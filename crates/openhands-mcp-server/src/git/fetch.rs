//! Fetching a repository into the directory of a task, which takes a while in a large one.
//!
//! The machine of the agent server fetches it by itself, with credentials that it may have. Where the
//! operator has configured a credential, this process fetches it and passes the pack on.

use std::time::Duration;

use mcp_core::tool::ToolError;
use tokio::time::timeout;
use uuid::Uuid;

use super::host::{GitHosts, HostedRepository};
use super::repository::{Repository, is_ref_name};
use super::smart_http::{PackStream, Refs, Service};
use super::snapshot::{EXIT_NO_DIRECTORY, snapshot_script};
use crate::api::{AgentServer, shell_quoted};

/// The timeout for fetching a repository.
const FETCH_SECONDS: u64 = 900;
/// The timeout for the snapshot of what was fetched, and of the uploaded files.
const SNAPSHOT_SECONDS: u64 = 120;
/// A pack is passed on in parts of this size.
const PART_BYTES: usize = 4 << 20;
/// The directory of packs that are being passed on, below the root of tasks.
const DIRECTORY: &str = ".mcp-fetches";

/// A fetch that was started.
pub(crate) struct Fetch {
    /// The id of the script, which prints the id of the snapshot at the end.
    pub(crate) script: Uuid,
    /// The branch, if it is known.
    pub(crate) branch: Option<String>,
}

/// Starts fetching the repository into the new directory `name` below `root`. Uploaded files replace those of
/// the repository. The initial snapshot is kept in `store`. Fetches without history if the git server supports it.
///
/// # Errors
/// The git host refuses it, or has no such branch. Later failures end the script with an error.
pub(crate) async fn start_fetch(
    server: &AgentServer,
    (root, store): (&str, &str),
    name: &str,
    from: &Repository,
    hosts: &GitHosts,
) -> Result<Fetch, ToolError> {
    let directory = format!("{root}/{name}");
    let Some(hosted) = hosts.find(from) else {
        let reference = shell_quoted(from.branch.as_deref().unwrap_or("HEAD"));
        let get = format!(
            "git fetch -q --depth 1 origin {reference} 2>/dev/null || git fetch -q origin {reference}\n\
             head=FETCH_HEAD\n"
        );
        let script = script((&directory, store), from, from.branch.as_deref(), &get);
        return Ok(Fetch {
            script: server.start_script(&script, FETCH_SECONDS).await?,
            branch: from.branch.clone(),
        });
    };
    let refs = hosted.refs(Service::UploadPack).await?;
    let default = refs.default_branch().filter(|name| is_ref_name(name));
    let branch = from.branch.as_deref().or(default);
    let head = branch.and_then(|branch| Some((branch, refs.branch_or_tag(branch)?)));
    let Some((branch, head)) = head else {
        return Err(ToolError::not_found(match &from.branch {
            Some(branch) => {
                format!("context.branch: the repository has no branch or tag {branch}.")
            }
            None => "context.repository has no commit on its default branch.".to_owned(),
        }));
    };
    let (branch, head) = (branch.to_owned(), head.to_owned());
    let parts = format!("{root}/{DIRECTORY}/{name}");
    let get = format!(
        "parts={parts}\n\
         trap 'rm -rf -- \"$parts\"' EXIT\n\
         until [ -s \"$parts/end\" ]; do sleep 0.2; done\n\
         [ \"$(head -n 1 \"$parts/end\")\" = done ]\n\
         cat \"$parts\"/part-* | git index-pack --stdin > /dev/null\n\
         sed 1d \"$parts/end\" > .git/shallow\n\
         [ -s .git/shallow ] || rm .git/shallow\n\
         head={head}\n",
        parts = shell_quoted(&parts),
    );
    let script = script((&directory, store), from, Some(&branch), &get);
    let script = server.start_script(&script, FETCH_SECONDS).await?;
    let server = server.clone();
    tokio::spawn(async move {
        let limit = Duration::from_secs(FETCH_SECONDS);
        let passed = timeout(limit, pass_on(&server, &parts, &hosted, &refs, &head)).await;
        let end = match passed {
            Ok(Ok(shallow)) => ["done".to_owned()].into_iter().chain(shallow).collect(),
            Ok(Err(error)) => {
                tracing::warn!(directory, %error, "cannot pass a repository on");
                vec!["failed".to_owned()]
            }
            Err(_) => return,
        };
        let end = end.join("\n") + "\n";
        if let Err(failure) = server.upload(&format!("{parts}/end"), end.into()).await {
            tracing::warn!(directory, ?failure, "cannot end a fetch");
        }
    });
    Ok(Fetch {
        script,
        branch: Some(branch),
    })
}

/// Passes the pack on in parts. Returns the commits whose parents are left out.
async fn pass_on(
    server: &AgentServer,
    directory: &str,
    from: &HostedRepository,
    refs: &Refs,
    head: &str,
) -> Result<Vec<String>, ToolError> {
    let mut pack: PackStream = from.fetch(refs, head).await?;
    let (mut part, mut count) = (Vec::with_capacity(PART_BYTES), 0);
    loop {
        let bytes = pack.next().await?;
        part.extend_from_slice(bytes.as_deref().unwrap_or_default());
        if part.len() >= PART_BYTES || (bytes.is_none() && !part.is_empty()) {
            // The shell sorts the names.
            let path = format!("{directory}/part-{count:06}");
            server.upload(&path, std::mem::take(&mut part)).await?;
            count += 1;
        }
        if bytes.is_none() {
            return Ok(pack.shallow);
        }
    }
}

/// The script around `get`, which gets the objects and sets `head`.
fn script(
    (directory, store): (&str, &str),
    from: &Repository,
    branch: Option<&str>,
    get: &str,
) -> String {
    format!(
        "mkdir -p -- {dir} && cd -P -- {dir} || exit {EXIT_NO_DIRECTORY}\n\
         export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:http:ssh:git\n\
         export GIT_SSH_COMMAND='ssh -oBatchMode=yes'\n\
         set -e\n\
         [ -e .git ] || git init -q\n\
         git remote add origin {url} 2>/dev/null || git remote set-url origin {url}\n\
         {get}\
         head=$(git rev-parse \"$head^{{commit}}\")\n\
         git update-ref refs/heads/{branch} \"$head\"\n\
         git update-ref refs/remotes/origin/{branch} \"$head\"\n\
         git symbolic-ref HEAD refs/heads/{branch}\n\
         git read-tree HEAD\n\
         git checkout-index -a -q || true\n\
         # So that later snapshots need not read all files.\n\
         git update-index -q --refresh > /dev/null 2>&1 || true\n\
         git rev-parse 'HEAD^{{tree}}'\n\
         set +e\n\
         {snapshot}\
         exit 0\n",
        snapshot = snapshot_script(store, SNAPSHOT_SECONDS),
        dir = shell_quoted(directory),
        url = shell_quoted(&from.url),
        branch = shell_quoted(branch.unwrap_or("main")),
    )
}
