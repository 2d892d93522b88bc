//! The Model Context Protocol without input and output: no sockets, no files, no environment.
//!
//! * [`jsonrpc`]: bytes to message and back; ids, arguments and results pass byte for byte.
//! * [`era`]: decides which of the three dialects a request belongs to.
//! * [`tool`]: declarations of tools; lists, validation and annotations follow from them. Also
//!   progress, questions to the client ([`tool::InputRequest`]), confirmation
//!   ([`tool::Call::confirm`]) and tasks ([`tool::TaskSupport`]).
//! * [`resource`], [`prompt`] and [`method`]: the same for resources, prompts and custom methods.
//! * [`registry`]: the items of one kind, declared without a service and then bound to one.
//! * [`server`]: dispatch, one frame in, one reply out, and notifications of changes
//!   ([`server::ChangeNotifier`]).
//! * [`metrics`]: durations of requests in histograms, for an exporter to read.
//! * [`host`]: which hosts are this machine.
//! * [`http_headers`]: the headers in which the modern era repeats parts of the body.
//! * [`duration`]: durations as people write them, such as `1h30m`.
//! * [`suggestion`]: names that a mistaken one may stand for.
//! * [`trace`]: the context of distributed traces, and the spans of requests.
//! * [`error`]: one enum of kinds; each dialect has its own number for a kind.
//!
//! Deliberately absent is a transport (`mcp-serve`, `mcp-client`).

pub mod clock;
pub mod completion;
pub mod duration;
pub mod era;
pub mod error;
pub mod host;
pub mod http_headers;
pub mod jsonrpc;
mod meta;
pub mod method;
pub mod metrics;
pub mod prompt;
pub mod registry;
pub mod resource;
pub mod revision;
pub mod server;
pub mod sign;
pub mod suggestion;
pub mod tool;
pub mod trace;
