//! Everything that a server needs towards the service behind it, once for all servers.
//!
//! - [`http`]: a client with limits and timeouts, and the words for its failures
//! - [`redact`]: secrets in texts, JSON, environments and command lines, shown as `***`
//! - [`text`]: control and hidden characters removed; long texts and lists truncated to a budget
//! - [`time`]: timestamps and durations, as services write them and people ask for them
//! - [`resource`]: a resource whose content is what a tool answers
//! - [`poll`]: polling with backoff, and announcing what has changed

#[cfg(feature = "http")]
pub mod http;
pub mod poll;
pub mod redact;
pub mod resource;
pub mod text;
pub mod time;
