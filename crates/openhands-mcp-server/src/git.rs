//! Git repositories of tasks, and the git hosts for which the operator has configured a credential.
//!
//! The machine of the agent server runs git in the directory of a task: for snapshots of it, changes since one
//! ([`Changes`]), a commit of its content ([`Commit`]).
//!
//! Git hosts are called by the program git on the machine of this server, in a directory of its own.
//! Bundles are passed on between the git host and the machine of the agent server, and no
//! credential ever is: no agent, hook or configuration of a repository there can read or use it.

mod changes;
mod commit;
mod fetch;
mod host;
mod program;

pub(crate) use changes::{
    ChangedDirectory, Changes, ChangesQuery, EXIT_NO_DIRECTORY, Part, Window, content_id, is_cut,
    is_object_id, snapshot_or_reason, snapshot_script,
};
pub(crate) use commit::{Commit, NewCommit, branch_script};
pub(crate) use fetch::{fetch_new, gaps, gaps_script, start_fetch};
pub(crate) use host::{GitHosts, HostedRepository, PullRequest, Repository, is_ref_name, no_forge};
pub(crate) use program::{Push, Refs, reason};
