//! Errors of requests, and their reasons in words.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use mcp_core::jsonrpc::Fault;
use mcp_core::trace::SpanError;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use url::Url;

/// The reason why a request has no result.
///
/// `peer` names the server: the origin of its URL, or the program that was started. The text of an
/// error names the peer and the kind of failure; it never holds bodies, messages or tokens of the
/// peer, so it may be logged and shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The URL, a header, the command or the parameters cannot be used. Nothing was sent.
    Invalid(String),
    /// No connection, or the program could not be started. Nothing was sent, so it is safe to retry.
    Unreachable {
        /// The server.
        peer: Arc<str>,
        /// The error of the operating system or the TLS layer.
        source: Arc<dyn std::error::Error + Send + Sync>,
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
    /// The server does not know the session (404). The request was not accepted, so it is safe to retry.
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
        let peer = server.origin().ascii_serialization();
        Self::unreachable(&peer.into(), problem)
    }

    pub(crate) fn unreachable(
        peer: &Arc<str>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::Unreachable {
            peer: peer.clone(),
            source: source.into().into(),
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
            Self::Timeout { .. } | Self::Protocol { .. } | Self::Closed { .. } => false,
            Self::Http { status: 408, .. } => false,
            Self::Http {
                status: 500, error, ..
            } => error.is_some(),
            Self::Http { status, .. } => *status < 500,
            _ => true,
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
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => f.write_str(what),
            Self::Unreachable { peer, source } => {
                write!(f, "{peer} cannot be reached")?;
                match reason(source.as_ref()) {
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

/// The reason why a file cannot be used.
#[derive(Debug)]
pub struct FileError {
    /// `ca`, `client_cert` or `client_key`.
    pub field: &'static str,
    /// The file, and what is wrong with it.
    pub problem: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for FileError {}

/// A failure on the way through a proxy.
#[derive(Debug)]
pub(crate) struct ProxyError(pub(crate) String);

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for ProxyError {}

/// The reason why a program was not started, and what to do.
#[derive(Debug)]
pub(crate) struct StartError(pub(crate) String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for StartError {}

/// Returns the reason why there is no connection in words, or else the innermost cause: the outer ones only say that there
/// is no connection.
pub fn cause(error: &(dyn StdError + 'static)) -> String {
    let innermost = || chain(error).last().unwrap_or(error).to_string();
    reason(error).unwrap_or_else(innermost)
}

/// Returns the reason why there is no connection: of TLS, a proxy or a file, which the user can change, or another one.
fn reason(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(fault) = find::<TlsError>(error) {
        return Some(in_words(fault));
    }
    if let Some(failed) = error.downcast_ref::<ProxyError>() {
        return Some(failed.to_string());
    }
    if let Some(StartError(reason)) = error.downcast_ref() {
        return Some(reason.clone());
    }
    if let Some(file) = error.downcast_ref::<FileError>() {
        return Some(file.to_string());
    }
    of_connection(error).map(str::to_owned)
}

/// The reason of the network or of the operating system.
fn of_connection(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    // The error of hyper's connector has no type of its own.
    if chain(error).any(|error| error.to_string().starts_with("dns error")) {
        return Some("its host name is not known (DNS)");
    }
    let is_late = error
        .downcast_ref::<reqwest::Error>()
        .is_some_and(reqwest::Error::is_timeout);
    match find::<io::Error>(error).map(io::Error::kind) {
        _ if is_late => Some("no connection in time"),
        Some(io::ErrorKind::ConnectionRefused) => {
            Some("the connection was refused: nothing listens at its port")
        }
        Some(io::ErrorKind::ConnectionReset) => Some("the connection was reset"),
        Some(io::ErrorKind::TimedOut) => Some("no connection in time"),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            Some("there is no route to it")
        }
        _ => None,
    }
}

/// Returns an error of this type among an error and its causes.
pub(crate) fn find<'a, T: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// An error and its causes, the outermost first.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An error of the operating system holds the error of TLS, but its source is the source of that.
        let error_of_system = error.downcast_ref::<io::Error>();
        match error_of_system.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

fn in_words(error: &TlsError) -> String {
    use CertificateError as Bad;
    let text = match error {
        TlsError::InvalidCertificate(bad) => match bad {
            Bad::UnknownIssuer => {
                "its certificate is of a CA that is not trusted here: set `ca` to the file of that CA"
            }
            Bad::Expired | Bad::ExpiredContext { .. } => {
                "its certificate has expired: renew it there, or correct the clock here"
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                "its certificate is not valid yet: correct the clock there or here"
            }
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                "its certificate is for another host name: use a name of the certificate in the URL"
            }
            Bad::Revoked => "its certificate was revoked",
            _ => return format!("its certificate is not valid: {error}"),
        },
        TlsError::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it asks for a client certificate: set `client_cert` and `client_key`"
            }
            AlertDescription::CertificateExpired => {
                "it refused the client certificate, which has expired: renew the file `client_cert`"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => {
                "it refused the client certificate: use one of a CA that it trusts in `client_cert`"
            }
            AlertDescription::HandshakeFailure => {
                "it ended the TLS handshake; it may ask for a client certificate (`client_cert`)"
            }
            AlertDescription::UnrecognisedName => "it does not know the host name of the URL",
            AlertDescription::ProtocolVersion => "it supports neither TLS 1.2 nor TLS 1.3",
            _ => return format!("it ended the TLS handshake: {error}"),
        },
        TlsError::InvalidMessage(_) => "it does not speak TLS; its URL may be one of http://",
        _ => return format!("the TLS handshake failed: {error}"),
    };
    text.to_owned()
}

/// Words that serializers write although JSON does not have them: Python writes the first three,
/// hand-made JSON the others.
const FOREIGN_WORDS: [&str; 7] = [
    "NaN",
    "Infinity",
    "-Infinity",
    "None",
    "True",
    "False",
    "undefined",
];

/// Returns the id of the request that `line` answers, and the fault in words; `None` if `line` is
/// something else, such as a log message. Servers write the id before the result, which is not JSON.
pub(crate) fn unreadable_answer(line: &[u8], fault: &Fault) -> Option<(u64, String)> {
    #[derive(Deserialize)]
    struct Head {
        id: u64,
        method: Option<IgnoredAny>,
    }
    let text = String::from_utf8_lossy(line);
    let outcome = [r#""result""#, r#""error""#];
    let start = outcome.into_iter().find_map(|name| text.find(name))?;
    let head = text[..start].trim_start_matches('\u{feff}').trim_end();
    let head = format!("{}}}", head.trim_end_matches(','));
    let head: Head = serde_json::from_str(&head).ok()?;
    if head.method.is_some() {
        return None;
    }
    let is_value = |word: &&str| {
        let mut places = text.match_indices(*word);
        places.any(|(at, _)| text[..at].trim_end().ends_with([':', '[', ',']))
    };
    let word = FOREIGN_WORDS.into_iter().find(is_value);
    let fault = match (word, fault) {
        (Some(word), Fault::NotJson(_)) => format!("invalid JSON: {word} is not a JSON value"),
        (None, Fault::NotJson(detail)) => format!("invalid JSON: {detail}"),
        (_, fault) => format!("an invalid JSON-RPC message: {fault}"),
    };
    Some((head.id, fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_core::jsonrpc::Frame;

    fn http(status: u16, has_error: bool) -> Error {
        Error::Http {
            peer: "p".into(),
            status,
            retry_after: None,
            error: has_error.then(|| RpcError::new(-32603, "Internal error")),
        }
    }

    #[test]
    fn answer_of_a_proxy_does_not_end_the_request() {
        let peer: Arc<str> = "p".into();
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

    fn found(line: &str) -> Option<(u64, String)> {
        let error = Frame::decode(line.as_bytes()).unwrap_err();
        unreadable_answer(line.as_bytes(), &error.fault)
    }

    #[test]
    fn answer_is_attributed_and_its_fault_named() {
        for (line, id, fault) in [
            (
                r#"{"jsonrpc":"2.0","id":5,"result":{"a":NaN}}"#,
                5,
                "NaN is not",
            ),
            (
                r#"{"id" : 12, "jsonrpc":"2.0","result":[-Infinity]}"#,
                12,
                "-Infinity is not",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"id":7,"a":tru}}"#,
                1,
                "at line 1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"message":"a \"NaN\"#,
                1,
                "EOF",
            ),
            (
                "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
                1,
                "expected value",
            ),
            (
                r#"{"id":1,"result":{}}"#,
                1,
                "Missing required field: jsonrpc",
            ),
        ] {
            let (found, text) = found(line).unwrap();
            assert_eq!(found, id, "{line}");
            assert!(text.contains(fault), "{text}");
        }
        for other in [
            "Server is ready: \"id\":5, \"result\"",
            r#"{"id":5,"level":"info"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"result":NaN}}"#,
            r#"{"jsonrpc":"2.0","result":NaN}"#,
            r#"{"jsonrpc":"2.0","id":"5","result":NaN}"#,
            r#"{"a":{"id":5,"result":NaN}}"#,
            "\"",
            "\\",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
