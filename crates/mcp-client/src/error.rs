//! Errors of requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::trace::SpanError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use url::Url;

use crate::unreachable;

/// The reason why a request has no result.
///
/// `peer` names the server: the origin of its URL, or the program that was started. The text of an
/// error names the peer and the kind of failure; it never holds bodies, messages or tokens of the
/// peer, so it may be logged and shown.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The URL, a header, the command or the parameters cannot be used. Nothing was sent.
    Invalid(String),
    /// No connection, or the program could not be started. Nothing was sent, so it is safe to retry.
    Unreachable {
        /// The server.
        peer: Arc<str>,
        /// The error of the operating system or the TLS layer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The child does not read its stdin, and no slot of the send queue became free within 5 s.
    /// Nothing was sent, so it is safe to retry.
    Busy {
        /// The server.
        peer: Arc<str>,
    },
    /// No response in time. The server may have acted; the request was cancelled.
    Timeout {
        /// The server.
        peer: Arc<str>,
        /// The timeout.
        after: Duration,
    },
    /// An HTTP status outside 2xx.
    Http {
        /// The server.
        peer: Arc<str>,
        /// The status.
        status: u16,
        /// `Retry-After`, if it was given in seconds.
        retry_after: Option<Duration>,
        /// The JSON-RPC error in the body, if it held one.
        error: Option<RpcError>,
    },
    /// The server refuses the token, or there is none for it.
    Unauthorized {
        /// The server.
        peer: Arc<str>,
        /// The reason in our words, and what to do.
        problem: String,
    },
    /// The server does not know the session (404), also not after a new handshake. The request was
    /// not accepted, so it is safe to retry.
    SessionLost {
        /// The server.
        peer: Arc<str>,
    },
    /// The server answered with a JSON-RPC error.
    Rpc(RpcError),
    /// The server broke the protocol or a limit.
    Protocol {
        /// The server.
        peer: Arc<str>,
        /// A description in our words.
        fault: String,
    },
    /// The server answered this request with something that is no JSON-RPC response, such as a number
    /// that JSON does not have. Other requests may work.
    InvalidAnswer {
        /// The server.
        peer: Arc<str>,
        /// The answer, in our words.
        fault: String,
    },
    /// The connection or the child process ended before the response: the outcome is unknown.
    Closed {
        /// The server.
        peer: Arc<str>,
        /// The way it ended.
        reason: String,
    },
}

/// The `error` object of a JSON-RPC response.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// The peer's message. Written by others: check it before you show it.
    #[serde(default)]
    pub message: String,
    /// The peer's details, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// An error without details.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            data: None,
        }
    }
}

impl Error {
    /// The error of an authorization server that does not work at the moment.
    pub(crate) fn unavailable(server: &Url, problem: &str) -> Self {
        Self::Unreachable {
            peer: server.origin().ascii_serialization().into(),
            source: problem.into(),
        }
    }

    pub(crate) fn protocol(peer: &Arc<str>, fault: impl Into<String>) -> Self {
        Self::Protocol {
            peer: peer.clone(),
            fault: fault.into(),
        }
    }

    pub(crate) fn invalid_answer(peer: &Arc<str>, fault: impl Into<String>) -> Self {
        Self::InvalidAnswer {
            peer: peer.clone(),
            fault: fault.into(),
        }
    }

    pub(crate) fn closed(peer: &Arc<str>, reason: impl Into<String>) -> Self {
        Self::Closed {
            peer: peer.clone(),
            reason: reason.into(),
        }
    }

    /// The JSON-RPC error that the peer sent, with any HTTP status.
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) => Some(error),
            Self::Http { error, .. } => error.as_ref(),
            _ => None,
        }
    }

    /// The error of the span of a request.
    pub(crate) fn span_error(&self) -> SpanError {
        match (self.rpc(), self) {
            (Some(error), _) => SpanError::Code(error.code),
            (None, Self::Timeout { .. }) => SpanError::Timeout,
            (None, Self::Http { status, .. }) => SpanError::Status(*status),
            _ => SpanError::NoAnswer,
        }
    }

    /// Returns true if the server certainly did not act on the request, so that a retry is safe.
    pub fn was_not_sent(&self) -> bool {
        matches!(
            self,
            Self::Invalid(_)
                | Self::Unreachable { .. }
                | Self::Busy { .. }
                | Self::SessionLost { .. }
        )
    }

    /// Returns true if the server has answered the request or did not accept it. After any other error it may
    /// still work on it: a proxy that has waited long enough answers in its place, with 502 or 504.
    pub(crate) fn ends_the_request(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::SessionLost { .. }
            | Self::Unauthorized { .. }
            | Self::Rpc(_)
            | Self::InvalidAnswer { .. } => true,
            Self::Timeout { .. } | Self::Protocol { .. } | Self::Closed { .. } => false,
            Self::Http { status: 408, .. } => false,
            Self::Http {
                status: 500, error, ..
            } => error.is_some(),
            Self::Http { status, .. } => *status < 500,
        }
    }

    /// Returns true if the connection or the server failed, rather than this request: for circuit
    /// breakers. A JSON-RPC error is a response, with any HTTP status.
    pub fn is_transport_failure(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::Timeout { .. }
            | Self::Protocol { .. }
            | Self::Closed { .. } => true,
            Self::Http { status, error, .. } => *status >= 500 && error.is_none(),
            Self::Invalid(_)
            | Self::SessionLost { .. }
            | Self::Unauthorized { .. }
            | Self::Rpc(_)
            | Self::InvalidAnswer { .. } => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => f.write_str(what),
            Self::Unreachable { peer, source } => {
                write!(f, "{peer} cannot be reached")?;
                match unreachable::reason(source.as_ref()) {
                    Some(problem) => write!(f, ": {problem}"),
                    None => Ok(()),
                }
            }
            Self::Busy { peer } => write!(f, "{peer} is busy: it does not read its input"),
            Self::Timeout { peer, after } => {
                write!(f, "{peer} did not answer within {} s", after.as_secs_f32())
            }
            Self::Http { peer, status, .. } => {
                write!(f, "{peer} answered with HTTP {status}")?;
                match status {
                    300..400 => {
                        f.write_str(", a redirect, which is not followed: set its final URL")
                    }
                    404 | 405 => f.write_str(": check the path of its URL"),
                    _ => Ok(()),
                }
            }
            Self::Unauthorized { peer, problem } => write!(f, "{peer} cannot be used: {problem}"),
            Self::SessionLost { peer } => write!(f, "{peer} no longer knows the session"),
            Self::Rpc(error) => error.fmt(f),
            Self::Protocol { peer, fault } => write!(f, "{peer} violated the protocol: {fault}"),
            Self::InvalidAnswer { peer, fault } => write!(f, "{peer} answered with {fault}"),
            Self::Closed { peer, reason } => {
                write!(f, "the connection to {peer} has ended: {reason}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered with JSON-RPC error {}", self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_a_proxy_does_not_end_the_request() {
        let peer: Arc<str> = "p".into();
        let http = |status, has_error: bool| Error::Http {
            peer: peer.clone(),
            status,
            retry_after: None,
            error: has_error.then(|| RpcError::new(-32603, "Internal error")),
        };
        for (error, ends) in [
            (http(307, false), true),
            (http(400, true), true),
            (http(401, false), true),
            (http(404, false), true),
            (http(408, false), false),
            (http(429, false), true),
            (http(499, false), true),
            (http(500, false), false),
            (http(500, true), true),
            (http(502, false), false),
            (http(503, true), false),
            (http(504, true), false),
            (Error::Rpc(RpcError::new(-1, "")), true),
            (Error::invalid_answer(&peer, "invalid JSON"), true),
            (Error::Busy { peer: peer.clone() }, true),
            (Error::SessionLost { peer: peer.clone() }, true),
            (Error::protocol(&peer, "not JSON"), false),
            (Error::closed(&peer, "it has exited"), false),
        ] {
            assert_eq!(error.ends_the_request(), ends, "{error}");
        }
    }

    #[test]
    fn wrong_path_is_named() {
        for status in [404, 405] {
            let error = Error::Http {
                peer: "p".into(),
                status,
                retry_after: None,
                error: None,
            };
            assert_eq!(
                error.to_string(),
                format!("p answered with HTTP {status}: check the path of its URL")
            );
        }
    }
}
