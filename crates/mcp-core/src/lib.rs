//! The Model Context Protocol without its edges: no sockets, no clock, no environment.
//!
//! * [`jsonrpc`]: bytes to message and back; ids, arguments and results pass byte for byte.
//! * [`era`]: to which of the three dialects a request belongs, decided for each by itself.
//! * [`tool`]: how a tool is declared; everything that is known about it follows from there.
//! * [`resource`], [`prompt`] and [`method`]: the same for resources, prompts and methods of one's
//!   own.
//! * [`registry`]: the items of one kind, declared without a service and then bound to one.
//! * [`server`]: dispatch, one frame in, one answer out.
//! * [`http_headers`]: the headers in which the modern era repeats what a body says.
//! * [`error`]: one enum of kinds; a number is a rendering of a kind in a dialect.
//!
//! What is deliberately absent: a transport (`mcp-serve`, `mcp-client`), and any knowledge of the
//! seeds' `mcp.*` methods outside of `server/seed_001.rs`.

pub mod clock;
pub mod completion;
pub mod era;
pub mod error;
pub mod health;
pub mod http_headers;
pub mod jsonrpc;
pub mod method;
pub mod prompt;
pub mod registry;
pub mod resource;
pub mod revision;
pub mod server;
pub mod sign;
pub mod tool;
