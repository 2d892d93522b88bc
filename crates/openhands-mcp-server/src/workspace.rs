//! The workspace of a task, a directory on the machine of the agent server: names that are allowed,
//! its set-up, and changes in it.

mod archive;
pub(crate) mod changes;
mod commit;
mod directory;
mod fetch;
pub(crate) mod mcp_servers;
mod other_tasks;
mod setup;
mod snapshot;

pub(crate) use archive::{ArchivePart, MAX_ARCHIVE_BYTES, archive_part};
pub(crate) use commit::{Commit, NewCommit};
pub(crate) use directory::{Directory, Root};
pub(crate) use openhands_api::FileName;
pub(crate) use setup::{FileContent, WorkspaceSpec, absolute_roots, set_up};
pub(crate) use snapshot::{is_object_id, printed_id};
