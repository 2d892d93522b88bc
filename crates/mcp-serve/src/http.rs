//! The HTTP listener, with limits against slow, broken and hostile clients.
//!
//! Top to bottom: [`Listener`] accepts connections and serves them, as many as `connections` has room for. `router` has
//! the paths, of which each gets a `request` that was checked (`admit`: [`Guard`], `rate`). `mcp` answers requests to
//! `/mcp`: it opens the `session`, reads the `body`, calls the server and writes the `reply`, as one JSON body or as a
//! stream of `events`. [`HttpService`] is all of that without the listener.

mod admit;
mod app;
mod body;
mod connections;
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
mod request;
mod router;
mod service;
mod session;
mod stream_slots;

pub(crate) use app::Extras;
pub use guard::Guard;
pub use limits::Limits;
pub use listener::Listener;
pub use service::HttpService;
