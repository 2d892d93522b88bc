//! The settings that are the same for every service of a kind.

use std::time::Duration;

use super::failure::FailureTexts;

/// A kind of service: how it is asked, and how its failures are told. A constant of each server.
#[derive(Debug)]
pub struct ServiceProfile {
    /// The name that requests carry, such as `n8n-mcp-server/0.1.0`.
    pub user_agent: &'static str,
    /// The time from connecting to the last byte, for requests that do not set their own.
    pub timeout: Duration,
    /// The largest answer that is read, in bytes, for requests that do not set their own.
    pub max_body: usize,
    /// The sentences for failures.
    pub wording: FailureTexts,
}
