//! Severities of log messages to the client (specification, "Logging"; RFC 5424).

use serde::{Deserialize, Serialize};

/// The severity of a log message, least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For debugging.
    Debug,
    /// General information.
    Info,
    /// Normal but significant.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// A component failed.
    Critical,
    /// Act at once.
    Alert,
    /// Nothing works.
    Emergency,
}
