//! The workspace of a task, a directory on the machine of the agent server: names that are allowed,
//! its set-up, and changes in it.

mod changes;
mod directory;
pub(crate) mod mcp_servers;
mod setup;

pub(crate) use changes::{changed_directory, read_changes};
pub(crate) use directory::{Directory, Root};
pub(crate) use setup::{FileContent, WorkspaceSpec, absolute_roots, set_up, snapshots};
