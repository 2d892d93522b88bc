//! Snapshots of a directory: the content of its git repositories at one moment. Those of the start of a task are
//! kept in a directory of this server on the machine of the agent server; others are temporary. Nothing is
//! written into the directory or its repositories.

use crate::api::{AgentServer, ApiResult, ScriptOutput, shell_quoted};

/// Files of OpenHands and of this server in a workspace. In a sandbox the agent server itself may run in
/// the workspace.
const OWN_FILES: &str = ".mcp-servers/** .openhands-agent-server.log \
                         workspace/bash_events/*_Bash* workspace/conversations/*/base_state.json \
                         workspace/conversations/*/events/* workspace/conversations/*/meta.json \
                         workspace/conversations/*/owner_lease.json \
                         workspace/conversations/*/.owner_lease.lock";

/// Larger files are compared by size and time, and their content is not read.
const LARGE_BYTES: u64 = 20_000_000;

/// The timeout of a script with git. It ends by itself, and so removes what it has written: less than the
/// time after which the agent server kills it.
pub(crate) const SNAPSHOT_SECONDS: u64 = 8;

/// The exit code of a script that cannot use the directory.
pub(crate) const EXIT_NO_DIRECTORY: i32 = 74;
/// The exit codes for a machine without git, and of `timeout`.
pub(crate) const EXIT_NO_GIT: i32 = 75;
pub(crate) const EXIT_TIMEOUT: i32 = 124;

const FUNCTIONS: &str = include_str!("snapshot.sh");
/// The functions that find what a task changed.
pub(crate) const RANGE: &str = include_str!("range.sh");

/// Commands that take a snapshot of the current directory, keep it in the directory `store`, and print its id.
pub(crate) fn snapshot_script(store: &str, seconds: u64) -> String {
    script(&[("store", store)], &["initial_snapshot\n"], seconds)
}

/// A script with these variables and the functions of `snapshot.sh`. It has a temporary directory.
pub(crate) fn script(variables: &[(&str, &str)], parts: &[&str], seconds: u64) -> String {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| format!(" {name}={}", shell_quoted(value)));
    format!(
        "(\n\
         work=$(mktemp -d) || exit 76\n\
         trap 'rm -rf -- \"$work\" || {{ sleep 1; rm -rf -- \"$work\"; }}' EXIT\n\
         export work own_files='{OWN_FILES}' large={LARGE_BYTES}{}\n\
         timeout -k 1 {seconds} sh -c {}\n\
         )\n",
        variables.collect::<String>(),
        shell_quoted(&format!("{FUNCTIONS}{}", parts.concat())),
    )
}

/// Runs a script with these variables and the functions of `snapshot.sh` in `directory`.
pub(crate) async fn run_in(
    server: &AgentServer,
    directory: &str,
    variables: &[(&str, &str)],
    parts: &[&str],
) -> ApiResult<ScriptOutput> {
    let script = format!(
        "cd -P -- {} || exit {EXIT_NO_DIRECTORY}\n\
         command -v git >/dev/null || exit {EXIT_NO_GIT}\n{}",
        shell_quoted(directory),
        script(variables, parts, SNAPSHOT_SECONDS)
    );
    server.run_script(&script).await
}

/// The last line of a script's output, if it is a git object id.
pub(crate) fn printed_id(printed: &str) -> Option<String> {
    let last = printed.trim_end().lines().next_back()?;
    is_object_id(last).then(|| last.to_owned())
}

/// Returns true for the id of a git object.
pub(crate) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40..=64) && text.chars().all(|c| c.is_ascii_hexdigit())
}
