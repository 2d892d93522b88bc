//! The workspace of a task, a directory on the machine of the agent server: names that are allowed,
//! its set-up, and changes in it.

mod changes;
mod directory;
mod left_over;
pub(crate) mod mcp_servers;
mod setup;

pub(crate) use changes::{changed_directory, read_changes};
pub(crate) use directory::{Directory, Root};
pub(crate) use left_over::{LeftOver, left_over};
pub(crate) use setup::{
    FileContent, WorkspaceSpec, absolute_roots, has_worktree, remove_worktree, set_up, snapshots,
};
