//! The HTTP listener, with limits against slow, broken and hostile clients.
//!
//! Top to bottom: [`Listener`] accepts connections and serves them, as many as `connections` has room for. `router` has
//! the paths, of which each gets a `request` that `app` has checked ([`Guard`], `limits`). `mcp` answers requests to
//! `/mcp`: it opens the `session`, calls the server and writes the `reply`, as one JSON body or as a stream of `events`.
//! [`HttpService`] is all of that without the listener.

mod app;
mod connections;
mod events;
mod guard;
mod headers;
mod limits;
mod listener;
mod mcp;
mod metrics;
mod page;
mod reply;
mod request;
mod router;
mod session;
mod sse;

pub(crate) use app::Extras;
pub use guard::Guard;
pub use limits::Limits;
pub use listener::Listener;
pub(crate) use page::Page;
pub use router::HttpService;
