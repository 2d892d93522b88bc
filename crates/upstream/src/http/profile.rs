//! The settings that all services of one kind share.

use std::time::Duration;

use super::failure::FailureTexts;

/// A kind of service: settings of requests and the texts for failures. A constant of each server.
#[derive(Debug)]
pub struct ServiceProfile {
    /// The name that requests carry, such as `n8n-mcp-server/0.1.0`.
    pub user_agent: &'static str,
    /// The default timeout of a request, from connecting to the last byte.
    pub timeout: Duration,
    /// The default limit of a response, in bytes.
    pub max_body: usize,
    /// The texts for failures.
    pub wording: FailureTexts,
}
