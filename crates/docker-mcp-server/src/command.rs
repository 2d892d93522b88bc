//! Programs of this machine: `ssh`, credential helpers.

use std::ffi::OsStr;
use std::process::Stdio;

use tokio::process::Command;

/// A program without input that is killed with its handle. It gets this server's environment without
/// the variables of this server, which may contain its tokens.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MCP_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}
