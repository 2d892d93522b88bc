//! The HTTP listener, with limits against slow, broken and hostile clients.
//!
//! Top to bottom: [`Listener`] accepts connections, which `connection` handles. `router` authenticates a
//! request ([`Guard`], `rate`) and routes it by its path. `mcp` answers requests to `/mcp`: it opens the
//! `session`, reads the `body`, calls the server and writes the `reply`, as one JSON body or as a stream
//! of `events`. [`HttpService`] is the router without the listener.

mod body;
mod connection;
mod cors;
mod events;
mod guard;
mod headers;
mod limits;
mod listener;
mod mcp;
mod metrics;
mod open_files;
mod page;
mod rate;
mod reply;
mod router;
mod service;
mod session;
mod stream_slots;

pub use connection::Workers;
pub use guard::Guard;
pub use limits::Limits;
pub use listener::Listener;
pub use service::HttpService;
