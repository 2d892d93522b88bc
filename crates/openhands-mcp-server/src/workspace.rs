//! The directory of a task on the agent server's side: which names are let in, how it is set up, and
//! what has changed in it.

pub(crate) mod changes;
mod directory;
mod file_name;
pub(crate) mod mcp_servers;
mod repository;
mod setup;

pub(crate) use directory::{Directory, Root};
pub(crate) use file_name::FileName;
pub(crate) use repository::Repository;
pub(crate) use setup::{WorkspaceSpec, absolute_roots, set_up};
