//! Failures of requests, and their conversion to tool errors.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::Proxy;
use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;

use super::client::display_url;
use super::request::whole_characters;
use crate::redact::json_cause;

/// A response that is not JSON of the expected form; names the member at fault.
pub type JsonError = serde_path_to_error::Error<serde_json::Error>;

/// The error texts for a model: how a service failed, and what to try next.
///
/// `{address}` in them is replaced by the address of the service.
#[derive(Debug)]
pub struct FailureTexts {
    /// No connection; nothing was sent. `{cause}` is the reason.
    pub unreachable: &'static str,
    /// No complete response in time; `{seconds}` is the timeout.
    pub timeout: &'static str,
    /// The connection ended in the middle.
    pub interrupted: &'static str,
    /// The response is larger than `{mib}` MiB.
    pub too_large: &'static str,
    /// The response is not one of this kind of service. `{cause}` is what is wrong with it.
    pub unreadable: &'static str,
    /// The addition to a failure after which a change may have been made all the same; may be empty.
    pub may_have_changed: &'static str,
    /// The addition to a failure after which a change has been made; may be empty.
    pub has_changed: &'static str,
    /// A credential is needed and none is configured.
    pub no_credential: &'static str,
    /// The file with the credential cannot be read.
    pub credential_unreadable: &'static str,
    /// The credential cannot be sent in a header.
    pub credential_invalid: &'static str,
    /// Responses outside 2xx, by status; the first match counts, `unreadable` without a match.
    /// `{status}` is the status, `{retry}` the advice when to try again.
    pub statuses: &'static [(RangeInclusive<u16>, ToolErrorKind, &'static str)],
    /// The text for responses outside 2xx that need more than the status. Called before `statuses`.
    pub refusal: fn(&ErrorResponse, address: &str) -> Option<(ToolErrorKind, String)>,
    /// The service's own reason, for the log.
    pub reason: fn(&ErrorResponse) -> Option<String>,
}

/// A service at an address.
#[derive(Clone)]
pub(super) struct Peer {
    address: Arc<str>,
    /// The host and port of the proxy to it, if there is one.
    proxy: Option<Arc<str>>,
    wording: &'static FailureTexts,
    /// The request changes something there.
    changes: bool,
}

impl Peer {
    pub(super) fn new(base: &Url, wording: &'static FailureTexts) -> Self {
        Self {
            address: display_url(base).into(),
            proxy: Proxy::Environment.name_for(base).map(Arc::from),
            wording,
            changes: false,
        }
    }

    /// The service, for a request with this method.
    pub(super) fn with_method(mut self, method: &Method) -> Self {
        self.changes = !method.is_safe();
        self
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn failure(&self, fault: Fault) -> HttpFailure {
        HttpFailure {
            fault,
            peer: self.clone(),
        }
    }
}

/// A failed request. Converts to a [`ToolError`] with the texts of the service.
pub struct HttpFailure {
    fault: Fault,
    peer: Peer,
}

/// The cause of a failed request.
#[derive(Debug)]
pub enum Fault {
    /// A credential is needed and none is configured.
    NoCredential,
    /// The file with the credential cannot be read.
    CredentialUnreadable(io::Error),
    /// The credential cannot be sent in a header.
    CredentialInvalid,
    /// No connection; nothing was sent.
    Unreachable(reqwest::Error),
    /// No complete response within this time.
    Timeout(Duration),
    /// The connection ended in the middle.
    Interrupted(reqwest::Error),
    /// The response is longer than this many bytes.
    TooLarge(usize),
    /// The response cannot be parsed.
    Unreadable(JsonError),
    /// The response has a status outside 2xx.
    Refused(Box<ErrorResponse>),
    /// The service is not one that can be used, for this reason; nothing was sent.
    Unusable(&'static str),
}

impl From<reqwest::Error> for Fault {
    fn from(error: reqwest::Error) -> Self {
        // Paths may hold secrets; the address is shown without its path.
        let error = error.without_url();
        if error.is_connect() {
            Self::Unreachable(error)
        } else {
            Self::Interrupted(error)
        }
    }
}

/// A response outside 2xx.
pub struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) method: Method,
    pub(super) path: Vec<String>,
    pub(super) has_credential: bool,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl ErrorResponse {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The method of the request.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path of the request, as it was given to the client.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns true if a credential was sent.
    pub fn has_credential(&self) -> bool {
        self.has_credential
    }

    /// The seconds of `Retry-After`, if the service sent it.
    fn retry_after(&self) -> Option<u32> {
        let value = self.headers.get(RETRY_AFTER)?;
        value.to_str().ok()?.parse().ok()
    }

    /// The body, if it is JSON of this form.
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&whole_characters(&self.body)).ok()
    }
}

// Without the body, which is long and may repeat secrets.
impl fmt::Debug for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {} to {}", self.status.as_u16(), self.method)
    }
}

impl fmt::Debug for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.fault, self.peer.address)
    }
}

impl HttpFailure {
    /// The cause.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the cause.
    pub fn into_fault(self) -> Fault {
        self.fault
    }

    /// The address of the service, which may be shown.
    pub fn address(&self) -> &str {
        self.peer.address()
    }

    /// The response outside 2xx, if there was one.
    pub fn refusal(&self) -> Option<&ErrorResponse> {
        match &self.fault {
            Fault::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The status of the response outside 2xx, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        self.refusal().map(ErrorResponse::status)
    }

    /// Returns true if no response came in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.fault, Fault::Timeout(_))
    }

    /// Returns true if a retry may work: the service is restarting, busy or stalled.
    pub fn is_transient(&self) -> bool {
        match &self.fault {
            Fault::Unreachable(_) | Fault::Interrupted(_) | Fault::Timeout(_) => true,
            Fault::Refused(refusal) => refusal.status.is_server_error(),
            _ => false,
        }
    }

    /// Makes it the failure of a request whose effect does not matter, such as a test.
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.peer.changes = false;
        self
    }

    /// The addition to the error of a change that may have been made, or has been made, all the same.
    fn about_change(&self) -> &'static str {
        let wording = self.peer.wording;
        match &self.fault {
            _ if !self.may_have_changed() => "",
            Fault::Unreadable(_) | Fault::TooLarge(_) => wording.has_changed,
            _ => wording.may_have_changed,
        }
    }

    /// Returns true if the request may have made its change, also if the response is none of this service.
    pub fn may_have_changed(&self) -> bool {
        let is_late = |refusal: &ErrorResponse| {
            refusal.status.is_server_error() && refusal.status != StatusCode::SERVICE_UNAVAILABLE
        };
        self.peer.changes
            && match &self.fault {
                Fault::Interrupted(_)
                | Fault::Timeout(_)
                | Fault::Unreadable(_)
                | Fault::TooLarge(_) => true,
                Fault::Refused(refusal) => is_late(refusal),
                _ => false,
            }
    }

    /// Returns true if the request may have been carried out without a response.
    pub fn is_ambiguous(&self) -> bool {
        match &self.fault {
            Fault::Interrupted(_) | Fault::Timeout(_) => true,
            Fault::Refused(refusal) => matches!(
                refusal.status,
                StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT
            ),
            _ => false,
        }
    }
}

impl From<HttpFailure> for ToolError {
    fn from(failure: HttpFailure) -> Self {
        match failure.about_change() {
            "" => plain(failure),
            addition => {
                let error = plain(failure);
                let message = format!("{} {addition}", error.message());
                Self::new(error.kind(), message).caused_by(error)
            }
        }
    }
}

/// The error, which says nothing about a change.
fn plain(HttpFailure { fault, peer }: HttpFailure) -> ToolError {
    use ToolErrorKind::{Timeout, Unauthorized, Unavailable, Upstream};
    let Peer {
        address,
        proxy,
        wording,
        ..
    } = peer;
    let error = |kind, text: &str| ToolError::new(kind, text.replace("{address}", &address));
    match fault {
        Fault::NoCredential => error(Unauthorized, wording.no_credential),
        Fault::CredentialUnreadable(cause) => {
            error(Unauthorized, wording.credential_unreadable).caused_by(cause)
        }
        Fault::CredentialInvalid => error(Unauthorized, wording.credential_invalid),
        Fault::Unreachable(cause) => {
            let mut reason = mcp_client::cause(&cause);
            if let Some(proxy) = proxy {
                reason = format!("through the proxy {proxy} of the environment: {reason}");
            }
            let text = wording.unreachable.replace("{cause}", &reason);
            error(Unavailable, &text).caused_by(cause)
        }
        Fault::Timeout(limit) => {
            let seconds = limit.as_secs().to_string();
            error(Timeout, &wording.timeout.replace("{seconds}", &seconds))
        }
        Fault::Interrupted(cause) => error(Unavailable, wording.interrupted).caused_by(cause),
        Fault::TooLarge(limit) => {
            let mib = (limit >> 20).to_string();
            error(Upstream, &wording.too_large.replace("{mib}", &mib))
        }
        Fault::Unreadable(cause) => {
            let text = wording.unreadable.replace("{cause}", &json_cause(&cause));
            error(Upstream, &text).caused_by(cause)
        }
        Fault::Refused(refusal) => refused(&refusal, wording, &address),
        Fault::Unusable(reason) => error(Upstream, reason),
    }
}

fn refused(refusal: &ErrorResponse, wording: &FailureTexts, address: &str) -> ToolError {
    let status = refusal.status.as_u16();
    let (kind, text) = (wording.refusal)(refusal, address).unwrap_or_else(|| {
        let mut rows = wording.statuses.iter();
        let row = rows.find(|(range, ..)| range.contains(&status));
        let (kind, text) = row.map_or(
            (ToolErrorKind::Upstream, wording.unreadable),
            |&(_, kind, text)| (kind, text),
        );
        let retry = match refusal.retry_after() {
            Some(seconds) => format!("Try again in {seconds} s."),
            None => "Try again in a while.".to_owned(),
        };
        let text = text.replace("{status}", &status.to_string());
        let text = text.replace("{retry}", &retry);
        let text = text.replace("{cause}", &format!("HTTP {status}"));
        (kind, text.replace("{address}", address))
    });
    ToolError::new(kind, text).caused_by(match (wording.reason)(refusal) {
        Some(reason) => format!("HTTP {status}: {reason}"),
        None => format!("HTTP {status}"),
    })
}
