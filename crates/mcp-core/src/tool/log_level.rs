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

impl LogLevel {
    /// Its name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_written_as_they_are_read() {
        let levels = [
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ];
        for name in levels {
            let level: LogLevel = serde_json::from_value(name.into()).unwrap();
            assert_eq!(level.as_str(), name);
        }
    }
}
