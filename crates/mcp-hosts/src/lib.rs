//! The hosts, which are programs that use MCP servers, and the files in which they list their servers.
//!
//! * [`HOSTS`] is the table of them: a host's file, the form of its entries, how it refers to a secret.
//! * [`Server::entry`] is a server in the form of a host.
//! * [`connect`] and [`disconnect`] plan the change of a file, and [`Plan::apply`] writes it: one key, with
//!   comments, order, indentation and line ends as they were.
//! * [`listed()`] reads the servers of a file.

mod diff;
mod edit;
mod entry;
mod error;
mod file;
mod folders;
mod host;
mod json;
mod listed;
mod own;
mod plan;
mod toml;

pub use entry::{Entry, Launch, Server, Token, Value};
pub use error::Error;
pub use folders::{Folders, System};
pub use host::{Form, Format, HOSTS, Host, Reference};
pub use listed::{Listed, listed};
pub use own::Own;
pub use plan::{Plan, connect, disconnect};
