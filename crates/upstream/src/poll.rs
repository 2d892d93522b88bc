//! Polling services that tell nobody what has changed: less often while nothing changes, not at all
//! while nobody is interested, and announced to the clients that are.

mod announce;
mod backoff;
mod watch;

pub use announce::announce;
pub use backoff::{Backoff, Delays};
pub use watch::{PollTarget, watch};
