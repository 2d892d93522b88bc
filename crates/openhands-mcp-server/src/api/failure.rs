//! Failures of calls to the agent server, and what callers are told about them.

use std::io;
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::task_id::TaskId;

/// A call to the agent server that did not give what was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Scheme, host and port.
    server: String,
    fault: Fault,
}

#[derive(Debug)]
pub(super) enum Fault {
    /// The key cannot be had.
    Key(io::Error),
    Unreachable(reqwest::Error),
    Slow(Duration),
    TooLarge,
    /// A success that is not the JSON that it should be.
    Unreadable(serde_json::Error),
    Refused(Refusal),
    Absent(Subject),
    /// OpenHands V0 answers.
    V0,
    /// There is no agent server for all tasks, as there is an app server.
    OnlySandboxes,
    /// The agent server of the task does not run.
    Sandbox(TaskId, Sandbox),
    /// What answers where the event socket should be speaks no WebSocket.
    NoSocket,
}

/// A thing that a request names in its path.
#[derive(Debug)]
pub(super) enum Subject {
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

/// An answer that is not a success.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    /// A key was sent along.
    keyed: bool,
    /// The agent server explains itself as `{"detail": …}`; another program does not.
    explained: bool,
    /// The code or the fields of that explanation: names, never text.
    hint: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, keyed: bool, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Body {
            detail: Value,
        }
        let detail = serde_json::from_slice::<Body>(body).ok().map(|b| b.detail);
        Self {
            status,
            keyed,
            explained: detail.is_some(),
            hint: detail.as_ref().and_then(hint),
        }
    }
}

/// `detail.code`, or the place of the first field at fault as `body.workspace`.
fn hint(detail: &Value) -> Option<String> {
    let names: Vec<&str> = match detail {
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

impl Failure {
    pub(super) fn new(server: String, fault: Fault) -> Self {
        Self { server, fault }
    }

    fn status(&self) -> Option<StatusCode> {
        match &self.fault {
            Fault::Refused(refusal) if refusal.explained => Some(refusal.status),
            _ => None,
        }
    }

    /// The agent server says that what the path names does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    /// The same failure, told as a subject that does not exist where that is what it means.
    pub(super) fn about(self, subject: Option<Subject>) -> Self {
        match subject {
            Some(subject) if self.is_missing() => Self {
                fault: Fault::Absent(subject),
                ..self
            },
            _ => self,
        }
    }

    /// True for "there is no such task", as opposed to "cannot say".
    pub(crate) fn is_no_task(&self) -> bool {
        matches!(self.fault, Fault::Absent(Subject::Task(_)))
    }

    /// What keeps the sandbox of the task from running it.
    pub(crate) fn sandbox(&self) -> Option<Sandbox> {
        match self.fault {
            Fault::Sandbox(_, sandbox) => Some(sandbox),
            _ => None,
        }
    }

    /// The key is missing or wrong.
    pub(super) fn is_unauthorized(&self) -> bool {
        let status = self.status();
        status == Some(StatusCode::UNAUTHORIZED) || status == Some(StatusCode::FORBIDDEN)
    }

    /// The agent server runs as many tasks as it may.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.fault, Fault::Refused(refusal) if refusal.status == StatusCode::TOO_MANY_REQUESTS)
    }

    /// The agent server's state does not allow it.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT)
    }

    /// The agent server did not like what the path or the body says.
    pub(crate) fn is_bad_request(&self) -> bool {
        self.status() == Some(StatusCode::BAD_REQUEST)
    }

    /// No answer came in time.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.fault, Fault::Slow(_))
    }

    /// The file has no bytes where some were asked for.
    pub(super) fn is_beyond(&self) -> bool {
        matches!(&self.fault, Fault::Refused(refusal) if refusal.status == StatusCode::RANGE_NOT_SATISFIABLE)
    }

    /// The answer is none that an agent server would give to a question that it knows.
    pub(super) fn is_other_program(&self) -> bool {
        match &self.fault {
            Fault::Unreadable(_) => true,
            Fault::Refused(Refusal { status, .. }) => {
                status.is_redirection()
                    || matches!(
                        *status,
                        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
                    )
            }
            _ => false,
        }
    }

    /// It may work in a moment: the agent server is restarting, busy or stalled.
    pub(crate) fn is_transient(&self) -> bool {
        match &self.fault {
            Fault::Unreachable(_) | Fault::Slow(_) | Fault::Sandbox(_, Sandbox::Starting) => true,
            Fault::Refused(refusal) => refusal.status.is_server_error(),
            _ => false,
        }
    }

    /// The request may have been carried out although no answer came.
    pub(crate) fn is_ambiguous(&self) -> bool {
        match &self.fault {
            Fault::Unreachable(error) => !error.is_connect(),
            Fault::Slow(_) => true,
            Fault::Refused(refusal) => matches!(
                refusal.status,
                StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT
            ),
            _ => false,
        }
    }
}

impl From<Failure> for ToolError {
    fn from(Failure { server, fault }: Failure) -> Self {
        use ToolErrorKind as Kind;
        let the_server = format!("The OpenHands agent server at {server}");
        match fault {
            Fault::Key(cause) => Self::new(
                Kind::Unauthorized,
                "The key of the OpenHands agent server cannot be read (yet): check \
                 OPENHANDS_API_KEY_FILE.",
            )
            .caused_by(cause),
            Fault::Unreachable(cause) => Self::unavailable(format!(
                "{the_server} does not answer. Start it or correct OPENHANDS_URL, then try again."
            ))
            .caused_by(cause),
            Fault::Slow(timeout) => Self::new(
                Kind::Timeout,
                format!(
                    "{the_server} did not answer within {} s. Try again in a moment.",
                    timeout.as_secs()
                ),
            ),
            Fault::TooLarge => Self::upstream(format!(
                "{the_server} sent an answer that is too large to be read."
            )),
            Fault::NoSocket => not_an_agent_server(&the_server),
            Fault::Unreadable(cause) => not_an_agent_server(&the_server).caused_by(cause),
            Fault::Absent(Subject::Task(id)) => Self::not_found(format!(
                "There is no task {id} on the OpenHands agent server. Task ids come from run_task."
            )),
            Fault::Absent(Subject::Profile(name)) => Self::new(
                Kind::Conflict,
                format!(
                    "There is no agent profile {name:?} on the OpenHands agent server: create it \
                     there, or leave agent (OPENHANDS_AGENT_PROFILE) out to use the active one."
                ),
            ),
            Fault::V0 => Self::upstream(format!(
                "At {server} is OpenHands V0, whose interface has been removed from OpenHands and \
                 which this server does not support. Install OpenHands 1.x and set OPENHANDS_URL \
                 to the address of its agent server (package openhands-agent-server)."
            )),
            Fault::OnlySandboxes => Self::new(
                Kind::Conflict,
                "This is not possible with the OpenHands V1 app server, which keeps every task in a \
                 sandbox of its own; with an agent server as OPENHANDS_URL it is.",
            ),
            Fault::Sandbox(id, sandbox) => down(id, sandbox),
            Fault::Refused(refusal) => refused(&the_server, &refusal),
        }
    }
}

fn not_an_agent_server(the_server: &str) -> ToolError {
    ToolError::upstream(format!(
        "{the_server} answers, but not as an agent server: this needs the OpenHands agent-server \
         API (/api/conversations, version 1.x), not the OpenHands web app. Correct OPENHANDS_URL."
    ))
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

fn refused(the_server: &str, refusal: &Refusal) -> ToolError {
    use ToolErrorKind as Kind;
    let status = refusal.status.as_u16();
    let hint = refusal.hint.as_deref();
    let error = match status {
        401 | 403 if refusal.keyed => ToolError::new(
            Kind::Unauthorized,
            format!("{the_server} refuses the key: correct OPENHANDS_API_KEY."),
        ),
        401 | 403 => ToolError::new(
            Kind::Unauthorized,
            format!("{the_server} wants a key: set OPENHANDS_API_KEY or OPENHANDS_API_KEY_FILE."),
        ),
        422 if hint == Some("unresolved_profile_references") => no_model(),
        409 => ToolError::new(
            Kind::Conflict,
            "The task is in a state that does not allow this. Ask get_task_status.",
        ),
        429 => ToolError::unavailable(
            "The OpenHands agent server runs as many tasks as it may. Nothing was started: try \
             again when a task has ended, or end one with cancel_task.",
        ),
        500.. => ToolError::unavailable(format!(
            "{the_server} has an internal problem (HTTP {status}). Try again in a moment; its log \
             says more."
        )),
        400 | 422 if refusal.explained => ToolError::upstream(format!(
            "{the_server} does not accept the request (HTTP {status}{}). Its version may not fit: \
             1.x is expected.",
            hint.map(|hint| format!(", {hint}")).unwrap_or_default()
        )),
        _ => not_an_agent_server(the_server),
    };
    error.caused_by(format!(
        "HTTP {status}{}",
        hint.map(|hint| format!(" {hint}")).unwrap_or_default()
    ))
}

/// What to do when the agent server knows no model to work with.
pub(super) fn no_model() -> ToolError {
    ToolError::new(
        ToolErrorKind::Conflict,
        "OpenHands has no model to work with, so no task was started. Choose one in its settings \
         (PATCH /api/settings on the agent server, agent_settings_diff.llm), or name an agent \
         profile that has one with OPENHANDS_AGENT_PROFILE.",
    )
}
