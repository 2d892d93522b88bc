//! The one place where errors of the connection and of the engine become something that a caller can
//! act on.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use bollard::errors::Error;
use mcp_core::tool::{ToolError, ToolErrorKind};
use upstream::redact::redacted;
use upstream::text::truncate;

use super::action::Action;
use super::target::Target;

/// The longest text of the engine that an error repeats, in characters.
const MAX_SAID: usize = 300;

/// An error that has a cause of its own.
type Source = Box<dyn StdError + Send + Sync>;

/// Why the engine did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was not asked: there was no connection.
    Unreachable(Obstacle, Source),
    /// It said no.
    Answered {
        /// HTTP status.
        status: u16,
        /// Its reason in one line, fit to be shown; empty where it gave none that is.
        message: String,
    },
    /// Nothing came within this time.
    Deadline(Duration),
    /// The reply broke off or is no engine's.
    Unreadable(Source),
    /// The reply has more bytes than this.
    TooLarge(u64),
}

/// What is in the way of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    NoSocket,
    Permission,
    NobodyListens,
    Tls,
    Other,
}

impl Failure {
    /// No connection, because of this.
    pub(super) fn unreachable(error: io::Error) -> Self {
        let obstacle = match error.kind() {
            io::ErrorKind::NotFound => Obstacle::NoSocket,
            io::ErrorKind::PermissionDenied => Obstacle::Permission,
            io::ErrorKind::ConnectionRefused => Obstacle::NobodyListens,
            _ => Obstacle::Other,
        };
        Self::Unreachable(obstacle, error.into())
    }

    /// A reply that makes no sense, because of this.
    pub(crate) fn unreadable(error: impl Into<Source>) -> Self {
        Self::Unreadable(error.into())
    }

    /// A refusal with this HTTP status and reason.
    pub(super) fn answered(status: u16, message: &str) -> Self {
        Self::Answered {
            status,
            message: said(message),
        }
    }

    /// The failure as a tool's error; after a change was asked for (`action`) it leaves open whether
    /// that happens. An object that does not exist is the business of who knows which ones do.
    pub(super) fn explain(self, target: &Target, action: Option<&Action<'_>>) -> ToolError {
        match self {
            Self::Unreachable(obstacle, source) => {
                let kind = match obstacle {
                    Obstacle::Permission => ToolErrorKind::Unauthorized,
                    _ => ToolErrorKind::Unavailable,
                };
                ToolError::new(kind, obstacle.advice(target)).caused_by(source)
            }
            Self::Answered { status, message } => refusal(status, &message),
            Self::Deadline(limit) => {
                let seconds = limit.as_secs();
                let text = match action {
                    None => format!(
                        "The Docker Engine at {target} did not answer within {seconds} s. It may \
                         be busy: try again later."
                    ),
                    Some(Action { verb, name, .. }) => format!(
                        "The Docker Engine did not confirm within {seconds} s that it would \
                         {verb} `{name}`. {UNCERTAIN}"
                    ),
                };
                ToolError::new(ToolErrorKind::Timeout, text)
            }
            Self::Unreadable(source) => {
                let text = match action {
                    None => format!(
                        "What answers at {target} broke off or is no Docker Engine. Check \
                         DOCKER_HOST, or try again."
                    ),
                    Some(Action { verb, name, .. }) => format!(
                        "The connection broke while the Docker Engine was asked to {verb} \
                         `{name}`. {UNCERTAIN}"
                    ),
                };
                ToolError::upstream(text).caused_by(source)
            }
            Self::TooLarge(limit) => ToolError::upstream(format!(
                "The Docker Engine's answer has more than {} MiB, which is the limit.",
                limit >> 20
            )),
        }
    }

    /// Whether the engine said that there is no such container.
    pub(crate) fn is_no_such_container(&self) -> bool {
        matches!(self, Self::Answered { status: 404, message }
            if message.to_ascii_lowercase().contains("no such container"))
    }
}

const UNCERTAIN: &str = "It may still happen: check with get_container before repeating.";

fn refusal(status: u16, message: &str) -> ToolError {
    let said = match message {
        "" => format!("HTTP status {status}"),
        message => message.to_owned(),
    };
    if message.starts_with("Multiple IDs found") {
        return ToolError::invalid_argument(
            "Several container ids begin like this: give more of the id, or the name.",
        );
    }
    if message.contains("HTTP request to an HTTPS server") {
        return ToolError::unavailable(
            "The Docker Engine expects TLS: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH.",
        );
    }
    let (kind, text) = match status {
        401 | 403 => (
            ToolErrorKind::Unauthorized,
            "The Docker Engine does not allow this",
        ),
        404 => (
            ToolErrorKind::NotFound,
            "The Docker Engine does not know this",
        ),
        409 => (
            ToolErrorKind::Conflict,
            "The container's state does not allow this",
        ),
        500.. => (ToolErrorKind::Upstream, "The Docker Engine failed"),
        _ => (ToolErrorKind::Upstream, "The Docker Engine refused"),
    };
    ToolError::new(kind, format!("{text}: {said}."))
}

impl Obstacle {
    fn advice(self, target: &Target) -> String {
        match self {
            Self::NoSocket => format!(
                "There is no Docker Engine at {target}: the socket does not exist. Start the \
                 engine, or set DOCKER_HOST to where it listens."
            ),
            Self::Permission => format!(
                "This server may not open the Docker socket {target}: permission denied. Add its \
                 user to the `docker` group and start it again."
            ),
            Self::NobodyListens => format!(
                "No Docker Engine listens at {target}. Start the engine, or set DOCKER_HOST to \
                 where it listens."
            ),
            Self::Tls => format!(
                "The TLS connection to the Docker Engine at {target} failed. Check ca.pem, \
                 cert.pem and key.pem in DOCKER_CERT_PATH, and that the engine uses TLS."
            ),
            Self::Other => format!(
                "The Docker Engine at {target} cannot be reached. Is it running, and is \
                 DOCKER_HOST right?"
            ),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// It travels through bollard and hyper as the cause of their errors.
impl StdError for Failure {}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        let mut cause = error.source();
        while let Some(inner) = cause {
            // An I/O error's `source` is the source of what it wraps, so the wrapped one is looked
            // at here.
            let wrapped = inner
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            if let Some(Self::TooLarge(limit)) = wrapped.and_then(|inner| inner.downcast_ref()) {
                return Self::TooLarge(*limit);
            }
            // An engine that does not like our certificate says so after the handshake (TLS 1.3).
            if wrapped.is_some_and(|inner| inner.is::<rustls::Error>()) {
                return Self::Unreachable(Obstacle::Tls, error.into());
            }
            cause = inner.source();
        }
        Self::Unreadable(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError {
                status_code,
                message,
            } => Self::answered(status_code, &message),
            Error::IOError { err } => match err.downcast::<Self>() {
                Ok(failure) => failure,
                Err(error) => Self::Unreadable(error.into()),
            },
            Error::HyperResponseError { err } => err.into(),
            error => Self::Unreadable(error.into()),
        }
    }
}

/// The engine's reason as one line that can be shown. What is no plain text (a proxy's page, JSON
/// of something else) says nothing to a caller.
fn said(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    if line.starts_with(['<', '{', '[']) {
        return String::new();
    }
    truncate(redacted(line).trim_end_matches('.'), MAX_SAID)
}

#[cfg(test)]
mod tests {
    use super::super::action::Kind;
    use super::*;

    fn answered(status: u16, message: &str) -> ToolError {
        let failure = Failure::from(Error::DockerResponseServerError {
            status_code: status,
            message: message.to_owned(),
        });
        failure.explain(&Target::Unix("/run/x.sock".into()), None)
    }

    #[test]
    fn statuses_have_kinds_and_reasons() {
        let error = answered(409, "cannot start a paused container, try unpause instead");
        assert_eq!(error.kind(), ToolErrorKind::Conflict);
        assert!(error.message().contains("try unpause instead"));
        assert_eq!(answered(500, "boom").kind(), ToolErrorKind::Upstream);
        let error = answered(500, "Multiple IDs found with provided prefix: a");
        assert_eq!(error.kind(), ToolErrorKind::InvalidArgument);
    }

    #[test]
    fn pages_and_secrets_are_not_repeated() {
        let error = answered(502, "<html><body>/srv/app/secret.py</body></html>");
        assert_eq!(
            error.message(),
            "The Docker Engine failed: HTTP status 502."
        );
        let error = answered(500, "exec: \"run --password=hunter2\": not found");
        assert!(!error.message().contains("hunter2"), "{error}");
        assert!(answered(500, &"x".repeat(10_000)).message().len() < 400);
    }

    #[test]
    fn an_unconfirmed_change_is_called_uncertain() {
        let target = Target::Tcp("h:1".into());
        let action = Action::new("stop", Kind::Container, "web");
        let error = Failure::Deadline(Duration::from_secs(20)).explain(&target, Some(&action));
        assert_eq!(error.kind(), ToolErrorKind::Timeout);
        assert!(error.message().contains("may still happen"));
    }
}
