//! The code that every server needs for the service behind it.
//!
//! - [`http`]: a client with limits, timeouts, and texts for its failures
//! - [`random`]: unpredictable numbers for ids and delays, without a system call for each
//! - [`redact`]: hides secrets in texts, JSON, environments and command lines
//! - [`text`]: removes control and invisible characters; truncates texts and lists to a budget
//! - [`time`]: parses and formats timestamps and durations
//! - [`resource`]: makes the content of a resource from the result of a tool
//! - [`poll`]: polls subscribed resources with backoff and announces their changes

#[cfg(feature = "http")]
pub mod http;
pub mod poll;
pub mod random;
pub mod redact;
pub mod resource;
pub mod text;
pub mod time;
