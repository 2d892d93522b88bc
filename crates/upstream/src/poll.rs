//! Polls services for changes of subscribed resources: with backoff while nothing changes, and not at
//! all without subscribers.

mod announce;
mod backoff;
mod watch;

pub use announce::announce;
pub use backoff::{Backoff, Delays};
pub use watch::{PollTarget, watch};
