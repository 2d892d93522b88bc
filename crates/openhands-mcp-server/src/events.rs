//! Events of a conversation: listening for them, and one-line summaries.

mod listener;
pub(crate) mod summary;

pub(crate) use listener::{EventListeners, Listener};
