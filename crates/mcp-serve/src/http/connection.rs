//! One TCP connection, and seven things that hyper does not do.
//!
//! - [`client`] closes idle connections without a valid token when there is no room for another one.
//! - [`takeover`] takes the socket of a long-lived event stream from hyper, which would keep its buffers for
//!   further requests: 1,000 open streams cost 6.8 MiB with it, 18.6 MiB without; the budget is 10.
//! - [`write_timeout`] closes the connection of a client that does not read: hyper has no such timeout.
//! - [`write_buffer`] gathers the responses to pipelined requests into one system call.
//! - [`head_timer`] is the timer of hyper, set once in a timeout and not for each request.
//! - [`socket`] is the socket with or without TLS.
//! - [`workers`] are threads, one of which runs all work of a connection of the gateway.

mod client;
mod head_timer;
mod socket;
mod takeover;
mod workers;
mod write_buffer;
mod write_timeout;

pub use workers::Workers;

pub(super) use client::{ClientConnection, OpenConnections, ROOM_GRACE};
pub(super) use head_timer::HeadTimer;
pub(super) use socket::Socket;
pub(super) use takeover::Takeover;
pub(super) use workers::WorkerSlot;
pub(super) use write_timeout::WriteTimeout;
