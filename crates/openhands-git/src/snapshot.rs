//! Snapshots of a directory: the content of its git repositories at one moment, kept in git's store on
//! the machine of the agent server. The id of a snapshot is that of a git object.

/// Files of OpenHands and of this server in a workspace. In a sandbox the agent server itself may run in
/// the workspace.
const OWN_FILES: &str = ".mcp-servers/** .openhands-agent-server.log \
                         workspace/bash_events/*_Bash* workspace/conversations/*/base_state.json \
                         workspace/conversations/*/events/* workspace/conversations/*/meta.json \
                         workspace/conversations/*/owner_lease.json \
                         workspace/conversations/*/.owner_lease.lock";

/// The timeout of `git add` for one repository.
pub(crate) const ADD_SECONDS: u64 = 8;

const FUNCTIONS: &str = include_str!("snapshot.sh");

/// Commands that take a snapshot of the current directory and print its id.
pub fn snapshot_script() -> String {
    format!("{}snapshot\n", functions(ADD_SECONDS))
}

/// The functions of `snapshot.sh`.
pub(crate) fn functions(add_seconds: u64) -> String {
    format!("own_files='{OWN_FILES}'; add_timeout={add_seconds}\n{FUNCTIONS}")
}

/// The last line of a script's output, if it is a git object id.
pub fn printed_id(printed: &str) -> Option<String> {
    let last = printed.trim_end().lines().next_back()?;
    is_object_id(last).then(|| last.to_owned())
}

/// Returns true for the id of a git object.
pub fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40..=64) && text.chars().all(|c| c.is_ascii_hexdigit())
}
