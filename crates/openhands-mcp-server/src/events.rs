//! Events of a conversation: hearing of them at once, and telling each in one line.

mod listener;
pub(crate) mod summary;

pub(crate) use listener::{EventListeners, Listener};
