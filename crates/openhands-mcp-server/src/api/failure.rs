//! Failures of calls to the agent server, and what callers are told about them.

use std::io;

use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Deserialize;
use serde_json::Value;
use upstream::http::{ErrorResponse, FailureTexts, Fault, HttpFailure, StatusCode};

use super::task_id::TaskId;

/// The sentence for everything that is no agent server.
const OTHER_PROGRAM: &str = "The OpenHands agent server at {address} answers, but not as an agent \
    server: this needs the OpenHands agent-server API (/api/conversations, version 1.x), not the \
    OpenHands web app. Correct OPENHANDS_URL.";
const NO_ANSWER: &str = "The OpenHands agent server at {address} does not answer. Start it or \
    correct OPENHANDS_URL, then try again.";
const NO_KEY: &str = "The key of the OpenHands agent server cannot be read (yet): check \
    OPENHANDS_API_KEY_FILE.";

pub(super) const WORDING: FailureTexts = FailureTexts {
    unreachable: NO_ANSWER,
    interrupted: NO_ANSWER,
    timeout: "The OpenHands agent server at {address} did not answer within {seconds} s. Try again \
        in a moment.",
    too_large: "The OpenHands agent server at {address} sent an answer that is too large to be \
        read.",
    unreadable: OTHER_PROGRAM,
    // It may run without a key, so none is required before it is asked.
    no_credential: NO_KEY,
    credential_unreadable: NO_KEY,
    credential_invalid: NO_KEY,
    statuses: &[
        (
            409..=409,
            ToolErrorKind::Conflict,
            "The task is in a state that does not allow this. Ask get_task_status.",
        ),
        (
            429..=429,
            ToolErrorKind::Unavailable,
            "The OpenHands agent server runs as many tasks as it may. Nothing was started: try \
             again when a task has ended, or end one with cancel_task.",
        ),
        (
            500..=999,
            ToolErrorKind::Unavailable,
            "The OpenHands agent server at {address} has an internal problem (HTTP {status}). Try \
             again in a moment; its log says more.",
        ),
    ],
    refusal: explain_refusal,
    reason: hint,
};

/// A call to the agent server that did not give what was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request or its answer.
    Http(HttpFailure),
    /// The thing that the request names does not exist.
    Absent(Subject),
    /// OpenHands V0 answers at this address.
    V0(String),
    /// There is no agent server for all tasks, as there is an app server.
    OnlySandboxes,
    /// The agent server of the task does not run.
    Sandbox(TaskId, Sandbox),
    /// At this address no WebSocket is spoken where the event socket should be.
    NoSocket(String),
    /// The key for the event socket cannot be had.
    Key(io::Error),
}

/// A thing that a request names in its path.
#[derive(Debug)]
pub(crate) enum Subject {
    Task(TaskId),
    /// An agent profile, by its name.
    Profile(String),
}

/// Why the agent server in the sandbox of a task does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// It will in a moment.
    Starting,
    /// It will when it is woken.
    Paused,
    /// The sandbox is in a state that it does not get out of by itself.
    Broken,
    /// The sandbox has been removed.
    Gone,
    /// The sandbox, or the conversation in it, could not be started.
    NotStarted,
}

impl From<HttpFailure> for Failure {
    fn from(failure: HttpFailure) -> Self {
        Self::Http(failure)
    }
}

impl Failure {
    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Http(failure) => failure.status(),
            _ => None,
        }
    }

    /// The status, where it is the agent server that explains itself: another program does not.
    fn explained_status(&self) -> Option<StatusCode> {
        let Self::Http(failure) = self else {
            return None;
        };
        let refusal = failure.refusal()?;
        detail(refusal).map(|_| refusal.status())
    }

    /// The agent server says that what the path names does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.explained_status() == Some(StatusCode::NOT_FOUND)
    }

    /// The same failure, told as a subject that does not exist where that is what it means.
    pub(super) fn about(self, subject: Option<Subject>) -> Self {
        match subject {
            Some(subject) if self.is_missing() => Self::Absent(subject),
            _ => self,
        }
    }

    /// True for "there is no such task", as opposed to "cannot say".
    pub(crate) fn is_no_task(&self) -> bool {
        matches!(self, Self::Absent(Subject::Task(_)))
    }

    /// What keeps the sandbox of the task from running it.
    pub(crate) fn sandbox(&self) -> Option<Sandbox> {
        match self {
            Self::Sandbox(_, sandbox) => Some(*sandbox),
            _ => None,
        }
    }

    /// The key is missing or wrong.
    pub(super) fn is_unauthorized(&self) -> bool {
        let status = self.explained_status();
        status == Some(StatusCode::UNAUTHORIZED) || status == Some(StatusCode::FORBIDDEN)
    }

    /// The agent server runs as many tasks as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.status() == Some(StatusCode::TOO_MANY_REQUESTS)
    }

    /// The agent server's state does not allow it.
    pub(crate) fn is_conflict(&self) -> bool {
        self.explained_status() == Some(StatusCode::CONFLICT)
    }

    /// The agent server did not like what the path or the body says.
    pub(crate) fn is_bad_request(&self) -> bool {
        self.explained_status() == Some(StatusCode::BAD_REQUEST)
    }

    /// No answer came in time.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.is_timeout())
    }

    /// The file has no bytes where some were asked for.
    pub(super) fn is_beyond(&self) -> bool {
        self.status() == Some(StatusCode::RANGE_NOT_SATISFIABLE)
    }

    /// The answer is none that an agent server would give to a question that it knows.
    pub(super) fn is_other_program(&self) -> bool {
        let Self::Http(failure) = self else {
            return false;
        };
        match failure.status() {
            Some(status) => status.is_redirection() || matches!(status.as_u16(), 404 | 405),
            None => matches!(failure.fault(), Fault::Unreadable(_)),
        }
    }

    /// It may work in a moment: the agent server is restarting, busy or stalled.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Http(failure) => failure.is_transient(),
            _ => self.sandbox() == Some(Sandbox::Starting),
        }
    }

    /// The request may have been carried out although no answer came.
    pub(crate) fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.is_ambiguous())
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        use ToolErrorKind as Kind;
        match failure {
            Failure::Http(failure) => failure.into(),
            Failure::Key(cause) => Self::new(Kind::Unauthorized, NO_KEY).caused_by(cause),
            Failure::NoSocket(address) => {
                Self::upstream(OTHER_PROGRAM.replace("{address}", &address))
            }
            Failure::Absent(Subject::Task(id)) => Self::not_found(format!(
                "There is no task {id} on the OpenHands agent server. Task ids come from run_task."
            )),
            Failure::Absent(Subject::Profile(name)) => Self::new(
                Kind::Conflict,
                format!(
                    "There is no agent profile {name:?} on the OpenHands agent server: create it \
                     there, or leave agent (OPENHANDS_AGENT_PROFILE) out to use the active one."
                ),
            ),
            Failure::V0(address) => Self::upstream(format!(
                "At {address} is OpenHands V0, whose interface has been removed from OpenHands and \
                 which this server does not support. Install OpenHands 1.x and set OPENHANDS_URL \
                 to the address of its agent server (package openhands-agent-server)."
            )),
            Failure::OnlySandboxes => Self::new(
                Kind::Conflict,
                "This is not possible with the OpenHands V1 app server, which keeps every task in a \
                 sandbox of its own; with an agent server as OPENHANDS_URL it is.",
            ),
            Failure::Sandbox(id, sandbox) => down(id, sandbox),
        }
    }
}

/// What to do about a task whose sandbox does not run.
fn down(id: TaskId, sandbox: Sandbox) -> ToolError {
    let (kind, what) = match sandbox {
        Sandbox::Starting => (
            ToolErrorKind::Unavailable,
            "is being started: try again in some seconds, or ask wait_task.",
        ),
        Sandbox::Paused => (
            ToolErrorKind::Conflict,
            "is paused: resume_task or send_message wakes it.",
        ),
        Sandbox::Broken => (
            ToolErrorKind::Conflict,
            "is broken: look at it in OpenHands, or run the task again.",
        ),
        Sandbox::Gone => (
            ToolErrorKind::Conflict,
            "has been removed, and with it all that the task did there.",
        ),
        Sandbox::NotStarted => (
            ToolErrorKind::Conflict,
            "could not be started: run the task again.",
        ),
    };
    ToolError::new(kind, format!("The sandbox of task {id} {what}"))
}

/// The explanation that only the agent server gives: `{"detail": …}`.
fn detail(refusal: &ErrorResponse) -> Option<Value> {
    #[derive(Deserialize)]
    struct Body {
        detail: Value,
    }
    refusal.json::<Body>().map(|body| body.detail)
}

/// The code or the fields of that explanation: `detail.code`, or the place of the first field at
/// fault as `body.workspace`. Names, never text.
fn hint(refusal: &ErrorResponse) -> Option<String> {
    let detail = detail(refusal)?;
    let names: Vec<&str> = match &detail {
        Value::Object(_) => vec![detail.get("code")?.as_str()?],
        Value::Array(errors) => {
            let place = errors.first()?.get("loc")?.as_array()?;
            place.iter().filter_map(Value::as_str).collect()
        }
        _ => return None,
    };
    let name = names.join(".");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (name.len() <= 80 && name.chars().all(plain)).then_some(name)
}

/// Refusals that the status alone does not explain.
fn explain_refusal(refusal: &ErrorResponse, address: &str) -> Option<(ToolErrorKind, String)> {
    let status = refusal.status().as_u16();
    let hint = hint(refusal);
    let the_server = format!("The OpenHands agent server at {address}");
    Some(match status {
        401 | 403 if refusal.has_credential() => (
            ToolErrorKind::Unauthorized,
            format!("{the_server} refuses the key: correct OPENHANDS_API_KEY."),
        ),
        401 | 403 => (
            ToolErrorKind::Unauthorized,
            format!("{the_server} wants a key: set OPENHANDS_API_KEY or OPENHANDS_API_KEY_FILE."),
        ),
        422 if hint.as_deref() == Some("unresolved_profile_references") => {
            (ToolErrorKind::Conflict, NO_MODEL.to_owned())
        }
        400 | 422 if detail(refusal).is_some() => (
            ToolErrorKind::Upstream,
            format!(
                "{the_server} does not accept the request (HTTP {status}{}). Its version may not \
                 fit: 1.x is expected.",
                hint.map(|hint| format!(", {hint}")).unwrap_or_default()
            ),
        ),
        _ => return None,
    })
}

/// The sentence for an agent server that knows no model to work with.
const NO_MODEL: &str = "OpenHands has no model to work with, so no task was started. Choose one in \
    its settings (PATCH /api/settings on the agent server, agent_settings_diff.llm), or name an \
    agent profile that has one with OPENHANDS_AGENT_PROFILE.";

/// The error where the agent server knows no model to work with.
pub(super) fn no_model() -> ToolError {
    ToolError::new(ToolErrorKind::Conflict, NO_MODEL)
}
