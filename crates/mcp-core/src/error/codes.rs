//! Error codes by era and profile, and HTTP statuses.

use super::{Error, ErrorCodes};
use crate::era::Era;
use crate::jsonrpc::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
};
use crate::tool::{ArgumentError, ToolErrorKind};

/// Codes for kinds that the specification has no code for, outside of the range that it reserves.
mod app {
    pub(super) const UNAUTHORIZED: i32 = 40100;
    pub(super) const FORBIDDEN: i32 = 40300;
    pub(super) const SESSION_NOT_FOUND: i32 = 40400;
    pub(super) const TOO_LARGE: i32 = 41300;
    pub(super) const RATE_LIMITED: i32 = 42900;
    pub(super) const TIMEOUT: i32 = 50400;
}

impl Error {
    /// The code of the kind in a dialect.
    pub(super) fn code(&self, era: Era, profile: ErrorCodes) -> i32 {
        use ErrorCodes::{Codefluss, Extended, Spec};
        match (self, profile) {
            (Self::Parse(_), _) => PARSE_ERROR,
            (Self::InvalidRequest { .. }, _) => INVALID_REQUEST,
            (Self::MethodNotFound { .. } | Self::TaskSupport(_), _) => METHOD_NOT_FOUND,
            (Self::Relayed(error), _) => error.code,
            (Self::InvalidParams(_), Spec | Codefluss) | (Self::Malformed(_), _) => INVALID_PARAMS,
            (Self::MissingCapability(_), _) => -32021,
            (Self::InvalidParams(_), Extended) => -32001,
            (Self::ToolNotFound { is_internal, .. }, _) if *is_internal => INTERNAL_ERROR,
            (Self::ToolNotFound { .. }, Spec | Codefluss) => INVALID_PARAMS,
            (Self::ToolNotFound { .. }, Extended) => -32007,
            // The code of the legacy era, which the modern era forbids.
            (Self::ResourceNotFound(_), Spec) if matches!(era, Era::Legacy(_)) => -32002,
            (Self::ResourceNotFound(_), Spec) => INVALID_PARAMS,
            (Self::ResourceNotFound(_), Codefluss) => -32003,
            (Self::ResourceNotFound(_), Extended) => -32006,
            (Self::PromptNotFound(_), Spec | Codefluss) => INVALID_PARAMS,
            (Self::PromptNotFound(_), Extended) => -32008,
            (Self::ToolFailed(_), _) if era != Era::Unversioned => INTERNAL_ERROR,
            (Self::ToolFailed(error), _) => match (error.kind(), profile) {
                (ToolErrorKind::Timeout, Extended) => -32012,
                (ToolErrorKind::Timeout, Spec | Codefluss) => app::TIMEOUT,
                _ => -32000,
            },
            (Self::Internal, Spec | Codefluss) => INTERNAL_ERROR,
            (Self::Internal, Extended) => -32002,
            (Self::Unauthorized(_), Spec) => app::UNAUTHORIZED,
            (Self::Unauthorized(_), Codefluss) => -32001,
            (Self::Unauthorized(_), Extended) => -32009,
            (Self::SessionNotFound, _) => app::SESSION_NOT_FOUND,
            (Self::Forbidden(_) | Self::InsufficientScope(_), Spec) => app::FORBIDDEN,
            (Self::Forbidden(_) | Self::InsufficientScope(_), Codefluss) => -32002,
            (Self::Forbidden(_) | Self::InsufficientScope(_), Extended) => -32010,
            (Self::RateLimited(_) | Self::TooManyInFlight(_), Spec) => app::RATE_LIMITED,
            (Self::RateLimited(_) | Self::TooManyInFlight(_), Codefluss) => -32000,
            (Self::RateLimited(_) | Self::TooManyInFlight(_), Extended) => -32011,
            (Self::TooLarge(_), _) => app::TOO_LARGE,
            (Self::UnsupportedVersion { .. }, _) => -32022,
            (Self::HeaderMismatch(_), _) => -32020,
        }
    }

    /// The HTTP status in the modern era, by the specification's table; 200 for errors that could
    /// also have been a result.
    pub(crate) fn modern_status(&self) -> u16 {
        match self {
            Self::MethodNotFound { .. } => 404,
            Self::Parse(_)
            | Self::InvalidRequest { .. }
            | Self::Malformed(_)
            | Self::MissingCapability(_)
            | Self::UnsupportedVersion { .. }
            | Self::HeaderMismatch(_) => 400,
            Self::Relayed(error) => relayed_status(error),
            _ => 200,
        }
    }
}

/// The error of another server, with a code that the client's era allows: 2026-07-28 has removed the
/// code for a missing resource, and the earlier revisions do not know the codes that it has added.
pub(super) fn render_relayed(error: &ErrorObject, era: Era) -> ErrorObject {
    let code = match (error.code, era) {
        (-32002, Era::Modern) => INVALID_PARAMS,
        (-32029..=-32020, Era::Unversioned | Era::Legacy(_)) => INTERNAL_ERROR,
        (code, _) => code,
    };
    ErrorObject {
        code,
        ..error.clone()
    }
}

/// The HTTP status that the specification's table gives the code.
fn relayed_status(error: &ErrorObject) -> u16 {
    match error.code {
        METHOD_NOT_FOUND => 404,
        PARSE_ERROR | INVALID_REQUEST | -32029..=-32020 => 400,
        _ => 200,
    }
}

/// Bytes of a request that its error repeats: enough to recognise it.
const MAX_QUOTE: usize = 1000;

/// Truncates text that may come from the peer: a request of megabytes must not be answered with
/// megabytes.
pub(crate) fn truncated(mut text: String) -> String {
    if text.len() > MAX_QUOTE {
        text.truncate(text.floor_char_boundary(MAX_QUOTE));
        text.push('…');
    }
    text
}

/// One line that names the invalid field, unless the reason already does.
pub(crate) fn one_line(error: &ArgumentError) -> String {
    let ArgumentError { field, reason, .. } = error;
    truncated(match field.is_empty() || reason.contains(field) {
        true => reason.clone(),
        false => format!("{field}: {reason}"),
    })
}
