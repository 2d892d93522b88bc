//! What can go wrong between us and n8n, and what is said about it: the one place for both.

use std::io;
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use super::scope::scope;

/// n8n's sentences about requests are short; what is longer is something else.
const MAX_COMPLAINT: usize = 300;

/// Why a request to n8n has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No key is configured.
    NoKey,
    /// The file with the key cannot be read.
    KeyFile(io::Error),
    /// The key cannot be sent in a header.
    OddKey,
    /// No connection: nothing was sent.
    Unreachable(reqwest::Error),
    /// No answer in time.
    Slow(Duration),
    /// The connection ended in the middle.
    Cut(reqwest::Error),
    /// The answer is longer than this many bytes.
    TooLarge(usize),
    /// The answer is not what n8n's API says.
    Unreadable(serde_json::Error),
    /// n8n said no.
    Refused(Refusal),
}

/// An answer outside 2xx.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    /// n8n's own sentence; `None` where the body is not n8n's JSON.
    message: Option<String>,
    /// Seconds, where the answer names them.
    retry_after: Option<u32>,
    /// What the key must be allowed to do.
    scope: Option<String>,
}

impl Failure {
    pub(crate) fn of_sending(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_connect() {
            Self::Unreachable(error)
        } else {
            Self::Cut(error)
        }
    }

    pub(super) fn cut(error: reqwest::Error) -> Self {
        Self::Cut(error.without_url())
    }

    pub(super) fn refused(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Body {
            message: String,
        }
        let retry_after = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        Self::Refused(Refusal {
            status,
            message: serde_json::from_slice::<Body>(body)
                .ok()
                .map(|body| body.message),
            retry_after: retry_after.and_then(|seconds| seconds.parse().ok()),
            scope: None,
        })
    }

    /// The same, as the answer to this request.
    pub(super) fn to(mut self, method: &Method, path: &[&str]) -> Self {
        if let Self::Refused(refusal) = &mut self {
            refusal.scope = scope(method, path);
        }
        self
    }

    /// n8n's own sentence about what is wrong with the request (HTTP 400), where it is one.
    pub(crate) fn complaint(&self) -> Option<String> {
        match self {
            Self::Refused(Refusal {
                status: StatusCode::BAD_REQUEST,
                message: Some(message),
                ..
            }) => {
                let line = message.lines().next().unwrap_or_default();
                Some(line.chars().take(MAX_COMPLAINT).collect())
            }
            _ => None,
        }
    }

    /// True if this n8n does not have the operation: it is older than that.
    pub(crate) fn is_unknown_operation(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_unknown_operation(),
            _ => false,
        }
    }

    /// True if n8n did not answer in time.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }

    /// True if n8n knows the path but not the id in it.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Refused(Refusal {
                status: StatusCode::NOT_FOUND,
                message: Some(_),
                ..
            })
        )
    }

    /// True if n8n calls the request itself bad, as it does for ids that are not numbers.
    pub(crate) fn is_bad_request(&self) -> bool {
        matches!(
            self,
            Self::Refused(Refusal {
                status: StatusCode::BAD_REQUEST,
                ..
            })
        )
    }

    /// True if n8n failed at it.
    pub(crate) fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::Refused(Refusal {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                ..
            })
        )
    }

    /// True if the state of things does not allow it.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Refused(Refusal {
                status: StatusCode::CONFLICT,
                ..
            })
        )
    }

    /// In words, for n8n at `address`.
    pub(super) fn explain(self, address: &str) -> ToolError {
        use ToolErrorKind::{Timeout, Unauthorized, Unavailable, Upstream};
        match self {
            Self::NoKey => ToolError::new(
                Unauthorized,
                format!(
                    "No API key for n8n at {address} is configured. Create one in n8n \
                     (Settings > n8n API) and set N8N_API_KEY or N8N_API_KEY_FILE."
                ),
            ),
            Self::KeyFile(error) => ToolError::new(
                Unauthorized,
                format!(
                    "The file that N8N_API_KEY_FILE names cannot be read (yet); it holds the API \
                     key of n8n at {address}."
                ),
            )
            .caused_by(error),
            Self::OddKey => ToolError::new(
                Unauthorized,
                "N8N_API_KEY holds characters that no API key has.",
            ),
            Self::Unreachable(error) => ToolError::new(
                Unavailable,
                format!(
                    "n8n at {address} cannot be reached. Start it, or set N8N_URL to where it is."
                ),
            )
            .caused_by(error),
            Self::Slow(limit) => ToolError::new(
                Timeout,
                format!(
                    "n8n at {address} did not answer within {} s.",
                    limit.as_secs()
                ),
            ),
            Self::Cut(error) => ToolError::new(
                Unavailable,
                format!("n8n at {address} closed the connection before its answer was complete."),
            )
            .caused_by(error),
            Self::TooLarge(cap) => ToolError::new(
                Upstream,
                format!(
                    "n8n's answer is larger than {} MiB. Ask for less, for example with a smaller \
                     limit.",
                    cap >> 20
                ),
            ),
            Self::Unreadable(error) => ToolError::new(
                Upstream,
                format!(
                    "What answers at {address} does not speak n8n's API. Check N8N_URL: it is the \
                     address of n8n itself, with its path prefix if it has one."
                ),
            )
            .caused_by(error),
            Self::Refused(refusal) => refusal.explain(address),
        }
    }
}

impl Refusal {
    /// n8n writes "not found" of a path and "Not Found" of a thing.
    fn is_unknown_operation(&self) -> bool {
        self.status == StatusCode::METHOD_NOT_ALLOWED
            || (self.status == StatusCode::NOT_FOUND
                && self.message.as_deref() == Some("not found"))
    }

    fn explain(self, address: &str) -> ToolError {
        use ToolErrorKind::{Conflict, Forbidden, NotFound, Unauthorized, Unavailable, Upstream};
        let unknown = self.is_unknown_operation();
        let Self {
            status,
            message,
            retry_after,
            scope,
        } = self;
        let licence = message
            .as_deref()
            .is_some_and(|message| message.contains("license"));
        let (kind, text) = match status.as_u16() {
            // n8n 1 answers 401 where its licence has no source control.
            401 | 403 if licence => (
                Forbidden,
                match message.as_deref().and_then(feature) {
                    Some(feature) => format!(
                        "The licence of n8n at {address} does not include this ({feature})."
                    ),
                    None => format!("The licence of n8n at {address} does not include this."),
                },
            ),
            401 => (
                Unauthorized,
                format!(
                    "n8n at {address} refuses the API key. Create a new one in n8n (Settings > \
                     n8n API) and set N8N_API_KEY or N8N_API_KEY_FILE."
                ),
            ),
            403 => (
                Unauthorized,
                match scope {
                    Some(scope) => format!(
                        "The API key lacks the scope {scope} on n8n at {address}. Add it to the \
                         key (Settings > n8n API)."
                    ),
                    None => format!(
                        "The API key lacks the scope for this on n8n at {address}. Add it to the \
                         key (Settings > n8n API)."
                    ),
                },
            ),
            _ if unknown => (
                Upstream,
                format!("This n8n at {address} does not offer that through its API: update n8n."),
            ),
            404 if message.is_some() => (NotFound, "n8n knows no such thing.".to_owned()),
            404 => (
                Upstream,
                format!(
                    "There is no n8n API at {address}. Check N8N_URL, and that n8n's public API is \
                     not disabled."
                ),
            ),
            409 => (
                Conflict,
                "n8n refuses this in the present state of the workflow or execution.".to_owned(),
            ),
            429 => (
                Unavailable,
                match retry_after {
                    Some(seconds) => {
                        format!("n8n at {address} limits its rate. Try again in {seconds} s.")
                    }
                    None => format!("n8n at {address} limits its rate. Try again in a while."),
                },
            ),
            502..=504 => (
                Unavailable,
                format!(
                    "n8n at {address} is not ready (HTTP {status}). Try again in a while.",
                    status = status.as_u16()
                ),
            ),
            300..=399 => (
                Upstream,
                format!(
                    "What answers at {address} redirects. Set N8N_URL to the address that it \
                     redirects to."
                ),
            ),
            other => (
                Upstream,
                format!("n8n at {address} answered with HTTP {other}. Its log has the cause."),
            ),
        };
        let error = ToolError::new(kind, text);
        match message {
            Some(message) => error.caused_by(format!("HTTP {}: {message}", status.as_u16())),
            None => error.caused_by(format!("HTTP {}", status.as_u16())),
        }
    }
}

/// `feat:variables`, in n8n's sentence about its licence.
fn feature(message: &str) -> Option<&str> {
    let word = message
        .split_whitespace()
        .find(|word| word.starts_with("feat:"))?;
    Some(word.trim_end_matches(['.', ',']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(status: u16, body: &str) -> ToolError {
        let status = StatusCode::from_u16(status).unwrap();
        Failure::refused(status, &HeaderMap::new(), body.as_bytes()).explain("http://n8n")
    }

    #[test]
    fn every_refusal_has_its_kind() {
        use ToolErrorKind::*;
        for (status, body, kind, part) in [
            (
                401,
                r#"{"message":"Unauthorized"}"#,
                Unauthorized,
                "N8N_API_KEY",
            ),
            (403, r#"{"message":"Forbidden"}"#, Unauthorized, "scope"),
            (
                403,
                r#"{"message":"Your license does not allow for x"}"#,
                Forbidden,
                "licence",
            ),
            (404, r#"{"message":"Not Found"}"#, NotFound, "no such"),
            (404, "<html>", Upstream, "N8N_URL"),
            (409, r#"{"message":"x"}"#, Conflict, "state"),
            (429, "slow down", Unavailable, "rate"),
            (
                500,
                r#"{"message":"at /srv/n8n/x.js"}"#,
                Upstream,
                "HTTP 500",
            ),
            (503, "", Unavailable, "not ready"),
            (302, "", Upstream, "redirects"),
        ] {
            let error = explain(status, body);
            assert_eq!(error.kind(), kind, "{status}");
            assert!(error.message().contains(part), "{status}: {error}");
            assert!(!error.message().contains("/srv"), "{error}");
        }
    }
}
