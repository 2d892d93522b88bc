//! One TCP connection under hyper, and where it goes beyond hyper.
//!
//! - [`takeover`] takes a long-lived event stream out of hyper's hands, which would keep its buffers
//!   for requests to come: 1,000 open streams cost 6.8 MiB with it, 18.6 MiB without; the budget is 10.
//! - [`write_timeout`] gives up on a client that does not read: hyper has no such timeout.
//! - [`write_buffer`] gathers the responses to pipelined requests into one system call.
//! - [`workers`] are threads that a connection of the gateway stays on.

mod takeover;
mod workers;
mod write_buffer;
mod write_timeout;

pub use workers::Workers;

pub(super) use takeover::Takeover;
pub(super) use workers::Place;
pub(super) use write_timeout::WriteTimeout;
