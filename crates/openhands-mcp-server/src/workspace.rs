//! The workspace of a task, a directory on the machine of the agent server: names that are allowed,
//! its set-up, and changes in it.

mod changes;
mod held;
mod left_over;
pub(crate) mod mcp_servers;
mod setup;
mod traces;
mod worktree;

pub(crate) use changes::{
    changed_directory, has_own_directory, is_below, read_changes, task_within,
};
pub(crate) use held::{LineEnd, interrupt};
pub(crate) use left_over::{LeftOver, left_over};
pub(crate) use setup::{
    Directory, FileContent, Root, Workspace, WorkspaceSpec, absolute_roots, set_up, snapshots,
};
pub(crate) use traces::Traces;
pub(crate) use worktree::{UnsavedWork, has_worktree, remove_worktree, worktree_branch};
