//! Failures of calls to the agent server, and their error messages for callers.

use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Deserialize;
use serde_json::Value;
use upstream::http::{ErrorResponse, FailureTexts, HttpFailure, StatusCode};
use upstream::redact::redacted;
use upstream::text::one_line;

use crate::api::names::TaskId;

/// The message if another program answers.
const OTHER_PROGRAM: &str = "The OpenHands agent server at {address} answers, but not as an agent \
    server: this needs the OpenHands agent-server API (/api/conversations, version 1.x), not the \
    OpenHands web app. Correct OPENHANDS_URL.";
const NO_ANSWER: &str = "The OpenHands agent server at {address} does not answer. Start it or \
    correct OPENHANDS_URL, then try again.";
const MAYBE_DONE: &str = "It may have been done all the same: look with get_task_status or list_tasks \
    before you repeat it.";
const NO_KEY: &str = "The key of the OpenHands agent server cannot be read (yet): check \
    OPENHANDS_API_KEY_FILE.";

const FULL: &str = "All slots for running tasks are taken. Nothing was started: try again when a task has \
    ended, or stop one with cancel_task.";

/// The texts of failures.
pub(crate) const WORDING: FailureTexts = FailureTexts {
    unreachable: "The OpenHands agent server at {address} does not answer: {cause}. Start it or \
        correct OPENHANDS_URL, then try again.",
    interrupted: NO_ANSWER,
    timeout: "The OpenHands agent server at {address} did not answer within {seconds} s. Try again \
        in a moment.",
    too_large: "The OpenHands agent server at {address} sent an answer that is too large to be \
        read.",
    unreadable: OTHER_PROGRAM,
    may_have_changed: MAYBE_DONE,
    // The answer may be that of another program, and that of a proxy in front of the agent server.
    has_changed: MAYBE_DONE,
    // The agent server may run without a key, so a missing one is no error before a request.
    no_credential: NO_KEY,
    credential_unreadable: NO_KEY,
    credential_invalid: NO_KEY,
    statuses: &[
        (
            409..=409,
            ToolErrorKind::Conflict,
            "The state of the task does not allow this. Call get_task_status.",
        ),
        (429..=429, ToolErrorKind::Unavailable, FULL),
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

/// Characters of the reason for a failed start.
const MAX_REASON_CHARS: usize = 300;

/// The result of a call to the agent server or the app server.
pub(crate) type ApiResult<T> = Result<T, ApiFailure>;

/// The failure of a call to the agent server or the app server.
#[derive(Debug)]
pub(crate) enum ApiFailure {
    /// The request was not sent, or its response is an error or unreadable.
    Http(HttpFailure),
    /// The task in the request's path does not exist.
    Absent(TaskId),
    /// An app server is configured, so there is no agent server for all tasks.
    SandboxesOnly,
    /// The agent server of the task does not run.
    SandboxDown(TaskId, SandboxProblem),
    /// No response came while the caller waited.
    NoAnswer,
    /// All slots for running tasks are taken.
    Full,
    /// Git cannot tell what changed; the reason for the caller.
    Git(String),
}

/// The reason why the agent server in the sandbox of a task does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SandboxProblem {
    Starting,
    /// The sandbox is paused and can be resumed.
    Paused,
    /// The sandbox is in an error state.
    Broken,
    /// The sandbox has been removed.
    Gone,
    /// The sandbox, or the conversation in it, could not be started; the reason of the app server, with secrets redacted.
    NotStarted(Option<String>),
    /// The task was cancelled before it had started.
    Cancelled,
}

impl SandboxProblem {
    pub(crate) fn not_started(reason: Option<&str>) -> Self {
        let reason = reason.unwrap_or_default().trim().trim_end_matches('.');
        let reason = one_line(&redacted(reason), MAX_REASON_CHARS);
        Self::NotStarted(Some(reason).filter(|reason| !reason.is_empty()))
    }
}

impl From<HttpFailure> for ApiFailure {
    fn from(failure: HttpFailure) -> Self {
        let absent = failure.refusal().and_then(absent_task);
        absent.map_or(Self::Http(failure), Self::Absent)
    }
}

/// The task in the path of a request, of which the agent server says that it does not exist. In the workspace of a task
/// that is a file, and for a switch it is the profile.
fn absent_task(refusal: &ErrorResponse) -> Option<TaskId> {
    detail(refusal).filter(|_| refusal.status() == StatusCode::NOT_FOUND)?;
    let mut path = refusal.path().iter().map(String::as_str);
    path.find(|part| matches!(*part, "conversations" | "app-conversations"))?;
    let id = TaskId::try_from(path.next()?.to_owned()).ok();
    id.filter(|_| !matches!(path.next(), Some("workspace" | "switch_profile")))
}

impl ApiFailure {
    fn http(&self) -> Option<&HttpFailure> {
        match self {
            Self::Http(failure) => Some(failure),
            _ => None,
        }
    }

    /// The status of the response, if it is outside 2xx.
    pub(super) fn status(&self) -> Option<StatusCode> {
        self.http()?.status()
    }

    /// The status, if the response has the agent server's explanation; other programs send none.
    fn explained_status(&self) -> Option<StatusCode> {
        let refusal = self.http()?.refusal()?;
        detail(refusal).map(|_| refusal.status())
    }

    /// Returns true if the agent server says that the path does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.explained_status() == Some(StatusCode::NOT_FOUND)
    }

    /// Returns true if a file that was to be read is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        let told = self.http().and_then(HttpFailure::refusal).and_then(detail);
        told.is_some_and(|told| told == "No index.html in directory")
    }

    /// Returns true if the task certainly does not exist.
    pub(crate) fn is_unknown_task(&self) -> bool {
        matches!(self, Self::Absent(_))
    }

    /// The reason why the sandbox of the task does not run, if that is the failure.
    pub(crate) fn sandbox_problem(&self) -> Option<&SandboxProblem> {
        match self {
            Self::SandboxDown(_, sandbox) => Some(sandbox),
            _ => None,
        }
    }

    /// Returns true if the API key is missing or wrong.
    pub(crate) fn is_unauthorized(&self) -> bool {
        let status = self.explained_status();
        matches!(
            status,
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        )
    }

    /// Returns true if the limit of running tasks is reached, ours or that of the agent server.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Full) || self.status() == Some(StatusCode::TOO_MANY_REQUESTS)
    }

    /// Returns true if the state of the conversation does not allow the request.
    pub(crate) fn is_conflict(&self) -> bool {
        self.explained_status() == Some(StatusCode::CONFLICT)
    }

    /// Returns true if the agent server refuses the path or the body of the request.
    pub(crate) fn is_bad_request(&self) -> bool {
        self.explained_status() == Some(StatusCode::BAD_REQUEST)
    }

    /// Returns true if a file cannot be written because of a directory or file of its name or of a part
    /// of its path. Up to 1.34 at least, that is a 500 with the error of the system.
    pub(crate) fn is_name_taken(&self) -> bool {
        let refusal = self.http().and_then(HttpFailure::refusal);
        let reason = refusal.and_then(ErrorResponse::json::<Value>);
        let reason = reason.as_ref().and_then(|body| body["exception"].as_str());
        let reason = reason.unwrap_or_default();
        // EEXIST, ENOTDIR and EISDIR have these numbers on all systems.
        let is_error = |number| reason.contains(&format!("[Errno {number}]"));
        self.is_bad_request() || [17, 20, 21].into_iter().any(is_error)
    }

    /// Returns true if no response came in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.is_timeout())
    }

    /// Returns true if a retry may help: the agent server is restarting, busy or stalled.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Http(failure) => failure.is_transient(),
            Self::NoAnswer => true,
            _ => self.sandbox_problem() == Some(&SandboxProblem::Starting),
        }
    }

    /// Returns true if the request may have made its change, although no response of the agent server says so.
    pub(crate) fn may_have_changed(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.may_have_changed())
    }

    /// Returns true if a request that may be carried out twice is worth another attempt.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.is_transient() || self.may_have_changed()
    }

    /// Makes it the failure of a request whose effect does not matter.
    pub(crate) fn without_effect(self) -> Self {
        match self {
            Self::Http(failure) => Self::Http(failure.without_effect()),
            other => other,
        }
    }

    /// The error, with more to say if the request may have made its change all the same.
    pub(crate) fn about_change(self, more: &str) -> ToolError {
        match self.may_have_changed() {
            true => with_more(self.without_effect().into(), more),
            false => self.into(),
        }
    }

    /// Returns true if the request may have been carried out although no response came.
    pub(crate) fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.is_ambiguous())
    }
}

impl From<ApiFailure> for ToolError {
    fn from(failure: ApiFailure) -> Self {
        match failure {
            ApiFailure::Http(failure) => failure.into(),
            ApiFailure::NoAnswer => Self::new(
                ToolErrorKind::Timeout,
                "The OpenHands agent server did not answer in time, so nothing is known about the \
                 task now. Ask again in a moment.",
            ),
            ApiFailure::Absent(id) => Self::not_found(format!(
                "There is no task {id} on the OpenHands agent server. Task ids come from run_task."
            )),
            ApiFailure::Full => Self::unavailable(FULL),
            ApiFailure::Git(reason) => Self::conflict(reason),
            ApiFailure::SandboxesOnly => Self::conflict(
                "This is not possible with the OpenHands V1 app server, because every task has \
                 its own sandbox there. Set OPENHANDS_URL to an agent server to use it.",
            ),
            ApiFailure::SandboxDown(id, problem) => sandbox_error(id, &problem),
        }
    }
}

/// The error with more to say.
pub(crate) fn with_more(error: ToolError, more: &str) -> ToolError {
    let message = format!("{} {more}", error.message());
    ToolError::new(error.kind(), message).caused_by(error)
}

/// The error for a task whose sandbox does not run.
fn sandbox_error(id: TaskId, problem: &SandboxProblem) -> ToolError {
    let reason = match problem {
        SandboxProblem::NotStarted(Some(reason)) => format!(" ({reason})"),
        _ => String::new(),
    };
    let state = match problem {
        SandboxProblem::Starting => "is starting: try again in a few seconds, or call wait_task.",
        SandboxProblem::Paused => "is paused: resume_task or send_message resumes it.",
        SandboxProblem::Broken => "is broken: check it in OpenHands, or run the task again.",
        SandboxProblem::Gone => "was removed, together with all that the task did there.",
        SandboxProblem::NotStarted(_) => "could not be started: run the task again.",
        SandboxProblem::Cancelled => "was removed before the task had started: run it again.",
    };
    let message = format!("The sandbox of task {id} {state}{reason}");
    match problem {
        SandboxProblem::Starting => ToolError::unavailable(message),
        _ => ToolError::conflict(message),
    }
}

/// The agent server's explanation of a refusal: `{"detail": …}`. Other programs send none.
fn detail(refusal: &ErrorResponse) -> Option<Value> {
    #[derive(Deserialize)]
    struct Explanation {
        detail: Value,
    }
    refusal.json::<Explanation>().map(|body| body.detail)
}

/// A short name from that explanation: `detail.code`, or the path of the first invalid field, such as
/// `body.workspace`. Never free text.
fn hint(refusal: &ErrorResponse) -> Option<String> {
    let detail = detail(refusal)?;
    let names: Vec<&str> = match &detail {
        Value::Object(_) => vec![detail.get("code")?.as_str()?],
        Value::Array(errors) => {
            let path = errors.first()?.get("loc")?.as_array()?;
            path.iter().filter_map(Value::as_str).collect()
        }
        _ => return None,
    };
    let name = names.join(".");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (name.len() <= 80 && name.chars().all(plain)).then_some(name)
}

/// Explains refusals for which the status alone is not enough.
fn explain_refusal(refusal: &ErrorResponse, address: &str) -> Option<(ToolErrorKind, String)> {
    let status = refusal.status().as_u16();
    let hint = hint(refusal);
    let (kind, message) = match status {
        401 | 403 if refusal.has_credential() => (
            ToolErrorKind::Unauthorized,
            "refuses the key: correct OPENHANDS_API_KEY.".to_owned(),
        ),
        401 | 403 => (
            ToolErrorKind::Unauthorized,
            "requires a key: set OPENHANDS_API_KEY or OPENHANDS_API_KEY_FILE.".to_owned(),
        ),
        422 if hint.as_deref() == Some("unresolved_profile_references") => {
            return Some((ToolErrorKind::Conflict, NO_MODEL.to_owned()));
        }
        400 | 422 if detail(refusal).is_some() => {
            let hint = hint.map_or(String::new(), |hint| format!(", {hint}"));
            let message = format!(
                "does not accept the request (HTTP {status}{hint}). Its version may be \
                 unsupported: 1.x is expected."
            );
            (ToolErrorKind::Upstream, message)
        }
        _ => return None,
    };
    let message = format!("The OpenHands agent server at {address} {message}");
    Some((kind, message))
}

/// The message if no model is set up in OpenHands.
pub(super) const NO_MODEL: &str = "OpenHands has no model to work with, so no task was started. Choose one in \
    its settings (PATCH /api/settings on the agent server, agent_settings_diff.llm), or name an \
    agent profile that has one with OPENHANDS_AGENT_PROFILE.";
