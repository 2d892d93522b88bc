//! Git repositories of tasks, and the git hosts for which the operator has configured a credential.
//!
//! Requests that need a credential are made by this process, which speaks git's own protocol over HTTP.
//! Packs of objects are passed on between the git host and the machine of the agent server, and no
//! credential ever is: no agent, hook or configuration of a repository there can read or use it.

mod forge;
mod host;
mod pkt_line;
mod pull_request;
mod repository;
mod smart_http;

pub use forge::Forge;
pub use host::{GitHost, GitHosts, HostedRepository};
pub use pull_request::PullRequest;
pub use repository::{Repository, is_ref_name};
pub use smart_http::{PackStream, Refs, Service};
