//! Errors of the connection and of the engine, and their words.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use bollard::errors::Error;
use mcp_core::tool::ToolErrorKind::{
    Conflict, NotFound, Timeout, Unauthorized, Unavailable, Upstream,
};
use mcp_core::tool::{ToolError, ToolErrorKind};
use upstream::redact::redacted;
use upstream::text::truncate;

use crate::engine::address::Address;

/// Longest message of the engine that an error repeats, in characters.
const MAX_MESSAGE: usize = 300;

type Source = Box<dyn StdError + Send + Sync>;

#[derive(Debug)]
pub(crate) enum EngineError {
    /// There was no connection, so the request was not sent.
    Unreachable(ConnectProblem, Source),
    /// The engine replied with an error status.
    Refused {
        status: u16,
        /// The engine's message in one line, redacted; empty if it was not plain text.
        message: String,
    },
    /// The engine began the work, and then reported this, which is not redacted.
    Failed(String),
    /// The reply did not arrive within this time.
    Timeout(Duration),
    /// The reply was incomplete, or not that of a Docker Engine.
    Unreadable(Source),
    /// A change was sent, and may have happened: its reply did not arrive, for one of the two reasons before.
    Unconfirmed(Box<EngineError>),
    /// The reply has more bytes than this.
    TooLarge(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectProblem {
    NoSocket,
    /// This program may not open the socket.
    Permission,
    Refused,
    Tls,
    /// `ssh` did not make a connection.
    Ssh,
    Other,
}

impl EngineError {
    pub(super) fn unreachable(error: io::Error) -> Self {
        let problem = match error.kind() {
            io::ErrorKind::NotFound => ConnectProblem::NoSocket,
            io::ErrorKind::PermissionDenied => ConnectProblem::Permission,
            io::ErrorKind::ConnectionRefused => ConnectProblem::Refused,
            _ => ConnectProblem::Other,
        };
        Self::Unreachable(problem, error.into())
    }

    pub(crate) fn unreadable(error: impl Into<Source>) -> Self {
        Self::Unreadable(error.into())
    }

    /// The error of a request that was to change something.
    pub(crate) fn of_change(self) -> Self {
        match self {
            lost @ (Self::Timeout(_) | Self::Unreadable(_)) => Self::Unconfirmed(lost.into()),
            failure => failure,
        }
    }

    /// The error of a reply with this HTTP status and message.
    pub(super) fn refused(status: u16, message: &str) -> Self {
        let message = one_line(message);
        Self::Refused { status, message }
    }

    pub(crate) fn explain(self, address: &Address) -> ToolError {
        let (kind, text) = match &self {
            Self::Refused { status, message } => return refusal(*status, message),
            Self::Failed(message) => return refusal(500, &one_line(message)),
            Self::Unreachable(problem @ ConnectProblem::Permission, _) => {
                (Unauthorized, problem.advice().to_owned())
            }
            Self::Unreachable(problem, _) => (Unavailable, problem.advice().to_owned()),
            Self::Timeout(limit) => {
                let seconds = limit.as_secs();
                let text = format!(
                    "The Docker Engine at ADDRESS did not answer within {seconds} s. It may \
                     be busy: try again later."
                );
                (Timeout, text)
            }
            Self::Unreadable(_) => (Upstream, BROKEN_ANSWER.to_owned()),
            Self::Unconfirmed(lost) => {
                let kind = lost.kind_of_lost();
                (kind, UNCONFIRMED.to_owned())
            }
            Self::TooLarge(limit) => {
                let limit = limit >> 20;
                let text = format!(
                    "The Docker Engine's answer has more than {limit} MiB, which is the limit."
                );
                (Upstream, text)
            }
        };
        let mut text = text.replace("ADDRESS", &address.to_string());
        let said = match &self {
            Self::Unreachable(ConnectProblem::Ssh, source) => Some((" ssh said: ", source)),
            Self::Unreachable(ConnectProblem::Other, source) => Some((" The cause: ", source)),
            _ => None,
        };
        if let Some((begin, source)) = said {
            text += begin;
            text += &truncate(&source.to_string(), MAX_MESSAGE);
        }
        let error = ToolError::new(kind, text);
        match self {
            Self::Unreachable(_, source) | Self::Unreadable(source) => error.caused_by(source),
            Self::Unconfirmed(lost) => error.caused_by(lost),
            _ => error,
        }
    }

    /// The kind of the error of a change whose reply was lost for this reason.
    pub(crate) fn kind_of_lost(&self) -> ToolErrorKind {
        match self {
            Self::Timeout(_) => Timeout,
            _ => Upstream,
        }
    }

    /// Whether the log driver keeps nothing that the engine could read back.
    pub(crate) fn is_unreadable_log(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains("support reading"))
    }

    /// Whether the engine reports that there is no such container.
    pub(crate) fn is_no_such_container(&self) -> bool {
        matches!(self, Self::Refused { status: 404, message }
            if message.to_ascii_lowercase().contains("no such container"))
    }

    /// Whether the engine reports that a removal of this container is under way already.
    pub(crate) fn is_removal_under_way(&self) -> bool {
        matches!(self, Self::Refused { status: 409, message }
            if message.to_ascii_lowercase().contains("already in progress"))
    }
}

const BROKEN_ANSWER: &str = "The reply from ADDRESS was incomplete, or it is not a Docker Engine. \
    Check DOCKER_HOST, or try again.";
const UNCONFIRMED: &str = "The Docker Engine at ADDRESS was asked for a change, and did not confirm it. It may have \
    happened all the same: look before you repeat it.";

/// How a container goes on that is paused.
pub(crate) const RESUME: &str = "update_container with `paused: false` resumes it.";

/// Parts of what an engine says of a container that is paused.
const PAUSED: [&str; 3] = ["try unpause", "unpaused first", "unpause the container"];

fn refusal(status: u16, message: &str) -> ToolError {
    if message.starts_with("Multiple IDs found") {
        return ToolError::invalid_argument(
            "Several container ids begin with this: give more of the id, or the name.",
        );
    }
    if message.contains("HTTP request to an HTTPS server") {
        return ToolError::unavailable(
            "The Docker Engine expects TLS: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH.",
        );
    }
    if status == 409 && PAUSED.iter().any(|said| message.contains(said)) {
        return ToolError::conflict(format!("It is paused: {RESUME}"));
    }
    let (kind, text) = match status {
        401 | 403 => (Unauthorized, "The Docker Engine does not allow this"),
        404 => (NotFound, "The Docker Engine does not know this"),
        409 => (Conflict, "The container's state does not allow this"),
        500.. => (Upstream, "The Docker Engine failed"),
        _ => (Upstream, "The Docker Engine refused"),
    };
    let reason = match message {
        "" => format!("HTTP status {status}"),
        message => message.to_owned(),
    };
    ToolError::new(kind, format!("{text}: {reason}."))
}

impl ConnectProblem {
    /// The fault, with `ADDRESS` for the address, and what helps.
    fn advice(self) -> &'static str {
        match self {
            Self::NoSocket => {
                "There is no Docker Engine at ADDRESS: the socket does not exist. Start the engine, or set DOCKER_HOST to its address."
            }
            Self::Permission => {
                "This server may not open the Docker socket ADDRESS: permission denied. Add its user to the `docker` group and start it again."
            }
            Self::Refused => {
                "No Docker Engine listens at ADDRESS. Start the engine, or set DOCKER_HOST to its address."
            }
            Self::Tls => {
                "The TLS connection to the Docker Engine at ADDRESS failed. Check ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, and that the engine uses TLS."
            }
            Self::Ssh => {
                "There is no connection to the Docker Engine at ADDRESS. Check that `ssh` logs in there without a question, and that `docker` is installed and allowed there."
            }
            Self::Other => {
                "The Docker Engine at ADDRESS cannot be reached. Is it running, and is DOCKER_HOST right?"
            }
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// bollard and hyper carry it as the cause of their errors.
impl StdError for EngineError {}

impl From<hyper::Error> for EngineError {
    fn from(error: hyper::Error) -> Self {
        let mut cause = error.source();
        while let Some(inner) = cause {
            // `source` of an I/O error skips the error that it wraps, so check that one here.
            let wrapped = inner.downcast_ref().and_then(io::Error::get_ref);
            // In TLS 1.3 an engine rejects our certificate only after the handshake.
            if wrapped.is_some_and(|inner| inner.is::<rustls::Error>()) {
                return Self::Unreachable(ConnectProblem::Tls, error.into());
            }
            cause = inner.source();
        }
        Self::Unreadable(error.into())
    }
}

impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError {
                status_code,
                message,
            } => Self::refused(status_code, &message),
            Error::DockerStreamError { error } => Self::Failed(error),
            Error::IOError { err } => match err.downcast::<Self>() {
                Ok(failure) => failure,
                Err(error) => Self::Unreadable(error.into()),
            },
            Error::HyperResponseError { err } => err.into(),
            error => Self::Unreadable(error.into()),
        }
    }
}

/// The engine's message as one redacted line. Empty if it is no plain text (a proxy's page, JSON of
/// another program), which would not help a caller.
fn one_line(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    if line.starts_with(['<', '{', '[']) {
        return String::new();
    }
    let words: Vec<&str> = line.split(' ').map(inside).collect();
    let line = words.join(" ");
    truncate(redacted(&line).trim_end_matches('.'), MAX_MESSAGE)
}

/// A path of a container without the directory of the engine that holds its files.
fn inside(word: &str) -> &str {
    let parts = ["/overlay2/", "/overlayfs/", "/vfs/dir/", "/rootfs/"];
    if !word.contains("/docker/") || !parts.iter().any(|part| word.contains(part)) {
        return word;
    }
    word.split_once("/merged").map_or("…", |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tool error of an engine's refusal.
    fn refused(status_code: u16, message: &str) -> ToolError {
        let message = message.to_owned();
        let failure = EngineError::from(Error::DockerResponseServerError {
            status_code,
            message,
        });
        failure.explain(&Address::parse("unix:///run/x.sock", None).unwrap())
    }

    #[test]
    fn address_that_cannot_be_reached_has_its_cause() {
        let address = Address::parse("tcp://docker.test:2375", None).unwrap();
        let failure = EngineError::unreachable(io::Error::other("no route to host"));
        let text = failure.explain(&address).message().to_owned();
        assert!(text.ends_with("The cause: no route to host"), "{text}");
    }

    /// The status, the engine's message, the kind of the error and a part of its text.
    const REFUSALS: &str = r#"409 | cannot start it, try unpause | Conflict | It is paused: update_container
        409 | The container name "/unpause-x" is already in use | Conflict | already in use
        500 | boom | Upstream | failed: boom.
        500 | Multiple IDs found with provided prefix: a | InvalidArgument | give more of the id
        502 | <html><body>/srv/app/secret.py</body></html> | Upstream | failed: HTTP status 502.
        500 | exec: "run --password=hunter2": not found | Upstream | --password=***
        404 | stat /var/lib/docker/overlay2/ab12/merged/etc/x: no such file | NotFound | this: stat /etc/x: no such file.
        400 | stat /etc/docker/x: no | Upstream | refused: stat /etc/docker/x: no."#;

    #[test]
    fn refusals_become_errors_without_secrets_and_directories() {
        for row in REFUSALS.lines() {
            let parts = row.trim().split(" | ").collect::<Vec<_>>();
            let [status, message, kind, expected] = parts.try_into().unwrap();
            let error = refused(status.parse().unwrap(), message);
            assert_eq!(format!("{:?}", error.kind()), kind, "{message}");
            assert!(error.message().contains(expected), "{error}");
        }
        assert!(refused(500, &"x".repeat(10_000)).message().len() < 400);
    }
}
