//! Fetching a repository into the directory of a task, which takes a while in a large one.
//!
//! The machine of the agent server fetches it by itself, with credentials that it may have. Where the
//! operator has configured a credential, this server fetches it and passes it on as a bundle.

use std::time::Duration;

use mcp_core::tool::ToolError;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use upstream::poll::Backoff;
use uuid::Uuid;

use super::changes::{EXIT_NO_DIRECTORY, failure_reason, is_object_id, snapshot_script};
use super::host::{GitHosts, HostedRepository, Repository, is_ref_name};
use super::program::{Bundle, FETCH_TIMEOUT};
use crate::api::{AgentServer, shell_quoted};

/// The time for which a call waits for new commits, and the intervals of looking for the end.
const NEW_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
/// The timeout for the snapshot of what was fetched, and of the uploaded files.
const SNAPSHOT_SECONDS: u64 = 120;
/// A bundle is passed on in parts of this size.
const PART_BYTES: u64 = 4 << 20;
/// The directory of bundles that are being passed on, below the root of tasks.
const DIRECTORY: &str = ".mcp-fetches";

/// Commands after which git asks for nothing and runs no other program.
const ENVIRONMENT: &str = "export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:http:ssh:git:file\n\
     export GIT_SSH_COMMAND='ssh -oBatchMode=yes'\n";

/// Starts fetching the repository into the new `directory`. Uploaded files replace those of
/// the repository. The initial snapshot is kept in `store`. Without a `depth` only one commit is fetched. Returns the id of
/// the script, which prints the id of the snapshot at the end, and the branch, if it is known.
///
/// # Errors
/// The git host refuses it, or has no such branch. Later failures end the script with an error.
pub(crate) async fn start_fetch(
    server: &AgentServer,
    (directory, store): (&str, &str),
    (from, depth): (&Repository, Option<u32>),
    hosts: &GitHosts,
) -> Result<(Uuid, Option<String>), ToolError> {
    let seconds = FETCH_TIMEOUT.as_secs();
    let Some(hosted) = hosts.find(from) else {
        let get = fetch_there(from.branch.as_deref(), depth);
        let script = script((directory, store), from, from.branch.as_deref(), &get);
        let script = server.start_script(&script, seconds).await?;
        return Ok((script, from.branch.clone()));
    };
    let refs = hosted.refs().await?;
    let default = refs.default_branch.clone();
    let default = default.filter(|name| is_ref_name(name));
    let wanted = from.branch.clone().or(default).and_then(|branch| {
        let is_commit = is_object_id(&branch);
        let known = refs.full_name(&branch);
        let name = known.or_else(|| is_commit.then(|| branch.clone()))?;
        Some((branch, name))
    });
    let (branch, wanted) = wanted.ok_or_else(|| {
        ToolError::not_found(match &from.branch {
            Some(branch) => {
                format!("context.branch: the repository has no branch or tag {branch}.")
            }
            None => "context.repository has no commit on its default branch.".to_owned(),
        })
    })?;
    let (root, name) = directory.rsplit_once('/').unwrap_or(("", directory));
    let parts = format!("{root}/{DIRECTORY}/{name}");
    let get = format!(
        "parts={parts}\n\
         trap 'rm -rf -- \"$parts\"' EXIT\n\
         until [ -s \"$parts/end\" ]; do sleep 0.2; done\n\
         [ \"$(head -n 1 \"$parts/end\")\" = done ] || {{ sed 1d \"$parts/end\" >&2; exit 76; }}\n\
         sed 1d \"$parts/end\" > .git/shallow\n\
         [ -s .git/shallow ] || rm .git/shallow\n\
         cat \"$parts\"/part-* > \"$parts/bundle\"\n\
         git fetch -q --no-write-fetch-head \"$parts/bundle\" '+refs/*:refs/*'\n\
         head=$(git rev-parse refs/mcp/head)\n\
         git update-ref -d refs/mcp/head\n\
         export GIT_LFS_SKIP_SMUDGE=1\n\
         # Git in the terminal of the agent fails at once, and does not ask for the credential that is not there.\n\
         git config core.askPass true\n",
        parts = shell_quoted(&parts),
    );
    let script = script((directory, store), from, Some(&branch), &get);
    let script = server.start_script(&script, seconds).await?;
    let (server, directory) = (server.clone(), directory.to_owned());
    tokio::spawn(async move {
        let passed = async {
            let bundle = hosted.fetch(&wanted, depth).await?;
            pass_on(&server, &parts, &bundle).await?;
            Ok::<_, ToolError>(bundle.shallow)
        };
        let end = match timeout(FETCH_TIMEOUT, passed).await {
            Ok(Ok(shallow)) => format!("done\n{shallow}"),
            Ok(Err(error)) => {
                tracing::warn!(directory, %error, "cannot pass a repository on");
                format!("failed\n{}\n", error.message())
            }
            Err(_) => return,
        };
        if let Err(failure) = server.upload(&format!("{parts}/end"), end.into()).await {
            tracing::warn!(directory, ?failure, "cannot end a fetch");
        }
    });
    Ok((script, Some(branch)))
}

/// Brings the commits that the remote repository has got since then to `refs/remotes/origin/` of the one in `directory`. Goes
/// on if that takes longer than a call.
///
/// # Errors
/// The git host or git refuses it, or it takes long.
pub(crate) async fn fetch_new(
    server: &AgentServer,
    directory: &str,
    from: &Repository,
    hosts: &GitHosts,
) -> Result<(), ToolError> {
    let (server, directory) = (server.clone(), directory.to_owned());
    let (url, hosted) = (from.url.clone(), hosts.find(from));
    let fetching = tokio::spawn(async move {
        let enter = format!(
            "cd -P -- {} || exit {EXIT_NO_DIRECTORY}\n\
             {ENVIRONMENT}\
             git() {{ command git -c core.hooksPath=/dev/null -c core.fsmonitor=false \"$@\"; }}\n",
            shell_quoted(&directory)
        );
        match hosted {
            Some(hosted) => pass_on_new(&server, &directory, &enter, &hosted).await,
            None => {
                let from = shell_quoted(&url);
                let all = "'+refs/heads/*:refs/remotes/origin/*'";
                let fetch = format!("{enter}git fetch -q --no-write-fetch-head {from} {all}\n");
                run_to_end(&server, &fetch).await
            }
        }
    });
    match timeout(NEW_TIMEOUT, fetching).await {
        Ok(fetched) => fetched.unwrap_or_else(|_| Err(ToolError::upstream("fetch failed."))),
        Err(_) => Err(ToolError::conflict(
            "fetch takes long and goes on, and nothing was sent to the agent: call again in a minute.",
        )),
    }
}

/// Fetches the new commits and passes them on to the directory, which the commands `enter`.
async fn pass_on_new(
    server: &AgentServer,
    directory: &str,
    enter: &str,
    from: &HostedRepository,
) -> Result<(), ToolError> {
    let list = "git for-each-ref --format='%(objectname)' refs/remotes/origin | sort -u\n";
    let listed = server.run_script(&format!("{enter}{list}")).await?;
    let known = listed.text().lines().filter(|id| is_object_id(id));
    let Some(bundle) = from.fetch_new(&known.collect::<Vec<_>>()).await? else {
        return Ok(());
    };
    let (root, name) = directory.rsplit_once('/').unwrap_or(("", directory));
    let parts = format!("{root}/{DIRECTORY}/{name}-{}", Uuid::new_v4().simple());
    let passed = pass_on(server, &parts, &bundle).await;
    // It removes them also if they are not whole.
    let fetch = format!(
        "parts={}\n\
         trap 'rm -rf -- \"$parts\"' EXIT\n\
         {enter}\
         {} || exit 76\n\
         cat \"$parts\"/part-* > \"$parts/bundle\" &&\n\
         git fetch -q --no-write-fetch-head \"$parts/bundle\" '+refs/remotes/origin/*:refs/remotes/origin/*'\n",
        shell_quoted(&parts),
        passed.is_ok(),
    );
    let fetched = run_to_end(server, &fetch).await;
    passed.and(fetched)
}

/// Runs a script with git that may take a while.
async fn run_to_end(server: &AgentServer, script: &str) -> Result<(), ToolError> {
    let script = server.start_script(script, FETCH_TIMEOUT.as_secs()).await?;
    let mut delays = POLL_BACKOFF.delays();
    loop {
        if let Some(end) = server.finished_script(script).await? {
            return match end.exit_code {
                Some(0) => Ok(()),
                code => Err(ToolError::conflict(format!(
                    "fetch: nothing was fetched, and nothing sent to the agent: {}.",
                    failure_reason(code, end.error())
                ))),
            };
        }
        delays.sleep().await;
    }
}

/// Passes a bundle on in parts.
async fn pass_on(server: &AgentServer, directory: &str, bundle: &Bundle) -> Result<(), ToolError> {
    let unreadable = |cause| ToolError::conflict("The bundle cannot be read.").caused_by(cause);
    let mut file = tokio::fs::File::open(bundle.path())
        .await
        .map_err(unreadable)?;
    for count in 0.. {
        let mut part = Vec::new();
        let mut next = (&mut file).take(PART_BYTES);
        next.read_to_end(&mut part).await.map_err(unreadable)?;
        if part.is_empty() {
            break;
        }
        // The shell sorts the names.
        let path = format!("{directory}/part-{count:06}");
        server.upload(&path, part).await?;
    }
    Ok(())
}

/// Commands that fetch on the machine of the agent server, and set `head`.
fn fetch_there(branch: Option<&str>, depth: Option<u32>) -> String {
    let wanted = shell_quoted(branch.unwrap_or("HEAD"));
    let get = match depth {
        None => format!(
            "git fetch -q --depth 1 origin {wanted} 2>/dev/null || git fetch -q origin {wanted}\n"
        ),
        Some(depth) => {
            let limit = match depth {
                0 => String::new(),
                depth => format!("--depth {depth} "),
            };
            let all = "'+refs/heads/*:refs/remotes/origin/*'";
            format!("git fetch -q {limit}--tags origin {wanted} {all}\n")
        }
    };
    format!(
        "{get}head=$(git rev-parse FETCH_HEAD)\n\
         named=$(git ls-remote --symref origin HEAD 2>/dev/null | \
         sed -n 's|^ref: refs/heads/\\(.*\\)\tHEAD$|\\1|p')\n"
    )
}

/// The script around `get`, which gets the objects and sets `head`, and `named` to the default branch if it is known.
fn script(
    (directory, store): (&str, &str),
    from: &Repository,
    branch: Option<&str>,
    get: &str,
) -> String {
    format!(
        "mkdir -p -- {dir} && cd -P -- {dir} || exit {EXIT_NO_DIRECTORY}\n\
         {ENVIRONMENT}\
         set -e\n\
         [ -e .git ] || git init -q\n\
         git remote add origin {url} 2>/dev/null || git remote set-url origin {url}\n\
         named=\n\
         {get}\
         branch={branch}\n\
         branch=${{branch:-${{named:-main}}}}\n\
         head=$(git rev-parse \"$head^{{commit}}\")\n\
         git update-ref \"refs/heads/$branch\" \"$head\"\n\
         git update-ref \"refs/remotes/origin/$branch\" \"$head\"\n\
         git symbolic-ref HEAD \"refs/heads/$branch\"\n\
         git read-tree HEAD\n\
         git checkout-index -a -q || true\n\
         # So that later snapshots need not read all files.\n\
         git update-index -q --refresh > /dev/null 2>&1 || true\n\
         {gaps}\
         set +e\n\
         {snapshot}\
         exit 0\n",
        gaps = gaps_script(),
        snapshot = snapshot_script(store, SNAPSHOT_SECONDS),
        dir = shell_quoted(directory),
        url = shell_quoted(&from.url),
        branch = shell_quoted(branch.unwrap_or_default()),
    )
}

/// The start of a line with the name of a submodule, which is an empty directory, or of a file whose content is in Git
/// LFS.
const SUBMODULE: &str = "submodule ";
const LFS_FILE: &str = "lfs ";

/// Commands that print such lines about the repository in the current directory.
pub(crate) fn gaps_script() -> String {
    format!(
        "git ls-files -s | sed -n 's/^160000 [^\t]*\t/{SUBMODULE}/p'\n\
         ! git grep -q filter=lfs HEAD -- ':(glob)**/.gitattributes' ||\n\
         git grep -lI '^version https://git-lfs' | sed 's/^/{LFS_FILE}/' || true\n"
    )
}

/// A note about the parts of a repository that are not there, from what such commands have printed.
pub(crate) fn gaps(printed: &str) -> Option<String> {
    let notes = [
        (SUBMODULE, "submodules are empty"),
        (LFS_FILE, "files in Git LFS are pointers"),
    ];
    let notes = notes.into_iter().filter_map(|(start, note)| {
        let lines = printed.lines();
        let names: Vec<&str> = lines.filter_map(|line| line.strip_prefix(start)).collect();
        (!names.is_empty()).then(|| format!("{note}: {}", names.join(", ")))
    });
    let notes: Vec<String> = notes.collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}
