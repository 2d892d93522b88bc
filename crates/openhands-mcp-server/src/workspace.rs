//! The workspace of a task, a directory on the machine of the agent server: names that are allowed,
//! its set-up, and changes in it.

mod changes;
pub(crate) mod mcp_servers;
mod setup;
mod stop;
mod worktree;

pub(crate) use changes::{
    changed_directory, has_own_directory, is_below, read_changes, task_within,
};
pub(crate) use setup::{Directory, Place, Traces, WorkspaceSpec, absolute_roots, check_root};
pub(crate) use stop::{LeftOver, interrupt, left_over};
pub(crate) use worktree::{UnsavedWork, has_worktree, remove_worktree, worktree_branch};
