//! The edges in: everything that a server needs to be reached, and the `main` of every server.
//!
//! A server is a [`Product`]: a name, a port, its options, its service and its tools. [`run()`] is
//! its whole `main`: it reads the command line, starts the log, and serves HTTP or stdio until it
//! is told to stop. The protocol itself is `mcp-core`'s.

mod clock;
mod http;
mod key;
mod log;
mod options;
mod print;
mod probe;
mod product;
mod run;
mod secret;
mod stdio;
mod tokens;

pub use http::{Guard, Limits, Listener, Workers};
pub use key::Key;
pub use options::{Command, Options};
pub use probe::watch;
pub use product::{Product, Service};
pub use run::{assemble, command, run};
pub use secret::Secret;
pub use tokens::Tokens;

/// The registry of the metrics that `/metrics` shows.
pub use prometheus_client::registry::Registry;
