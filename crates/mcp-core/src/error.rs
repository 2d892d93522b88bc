//! Errors of requests, and their form on the wire: code, words and data by era and profile, and HTTP status.

use std::time::Duration;

use serde_json::{Value, json};

use crate::era::Era;
use crate::jsonrpc::{
    ErrorObject, Fault, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    PARSE_ERROR,
};
use crate::revision::{MODERN, Revision};
use crate::suggestion::nearest;
use crate::tool::{ArgumentError, RpcError, ToolError, ToolErrorKind};

/// The page that says of each kind what it means and what to do. A branch that is never renamed, since the address
/// is in programs. Results with `isError` have no such address: a model reads them, and pays for each word.
const HELP: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/errors.md");

/// Most similar names that the error of an unknown tool tells.
const MAX_SIMILAR: usize = 5;

/// A failed request, by kind. [`Error::render`] gives the number of the kind in each dialect.
#[derive(Debug)]
pub enum Error {
    /// Not JSON.
    Parse(String),
    /// JSON, but no request.
    InvalidRequest {
        /// The fault, in words.
        detail: String,
        /// The envelope field at fault, where it is one field's fault.
        field: Option<&'static str>,
    },
    /// No such method in this era.
    MethodNotFound {
        /// Its name.
        method: String,
        /// A method of the server with almost this name.
        similar: Option<String>,
    },
    /// Parameters of a method, or arguments of a tool, that do not fit.
    InvalidParams(ArgumentError),
    /// A request of the modern era without the `_meta` that each must carry (2026-07-28, "`_meta`").
    Malformed(ArgumentError),
    /// The request needs these capabilities, and the client has not declared them (2026-07-28).
    MissingCapability(Box<Value>),
    /// No such tool.
    ToolNotFound {
        /// The name that was asked for.
        name: String,
        /// The names of the listed tools.
        available: Vec<String>,
        /// True for `mcp.callTool` of seed 001, to which it is an internal error.
        is_internal: bool,
    },
    /// No such resource.
    ResourceNotFound(String),
    /// No such prompt.
    PromptNotFound(String),
    /// A tool failed where the dialect has no `isError` result (seed 001).
    ToolFailed(ToolError),
    /// The tool runs only as a task, or never as one (2025-11-25).
    TaskSupport(String),
    /// The error of another server, or of a task that has ended with it, passed on.
    Relayed(Box<ErrorObject>),
    /// A fault of ours; the detail is in the log.
    Internal,
    /// No valid credentials.
    Unauthorized(Credentials),
    /// The session of the request has ended, has expired, or never existed.
    SessionNotFound,
    /// A foreign `Host` or `Origin`, or a request that a policy forbids.
    Forbidden(String),
    /// The access token of the request has not all of these scopes (RFC 6750, 3.1).
    InsufficientScope(String),
    /// Too many requests; how long to wait before the next.
    RateLimited(Duration),
    /// More requests in flight than this limit.
    TooManyInFlight(usize),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The requested version is not supported (2026-07-28).
    UnsupportedVersion {
        /// The version that the request names.
        requested: String,
        /// True if the transport is an older one, which has no modern era.
        is_old_transport: bool,
    },
    /// A header and the body differ (2026-07-28).
    HeaderMismatch(String),
}

/// The table of error codes of the unversioned era. The other eras always use [`ErrorCodes::Spec`],
/// because some of these numbers mean something else there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorCodes {
    /// The five codes of JSON-RPC, and codes outside of the reserved range for the rest.
    #[default]
    Spec,
    /// The table of seed 000: `-32000 … -32004`.
    Codefluss,
    /// The table of seed 004: `-32001 … -32012`.
    Extended,
}

/// The credentials of a request that is refused as unauthorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// There is no `Authorization` header.
    Missing,
    /// The header is no `Bearer TOKEN`.
    NotBearer,
    /// The token is unknown, has expired, or is for another resource.
    Invalid,
}

impl Credentials {
    /// The problem, and what to send instead.
    fn problem(self) -> String {
        let problem = match self {
            Self::Missing => "the request has no Authorization header",
            Self::NotBearer => "the Authorization header does not have the form `Bearer TOKEN`",
            Self::Invalid => "this server does not know the token, or it has expired",
        };
        format!(
            "{problem}; send `Authorization: Bearer TOKEN` with a token of this server, as MCP_TOKEN or its token file \
             has it"
        )
    }
}

impl Error {
    /// The stable name, sent as `data.kind` in every dialect.
    pub fn kind(&self) -> &'static str {
        self.words().0
    }

    /// The error with the code and the words of a dialect.
    pub fn render(&self, era: Era, profile: ErrorCodes) -> ErrorObject {
        if let Self::Relayed(error) = self {
            return render_relayed(error, era);
        }
        let profile = match era {
            Era::Unversioned => profile,
            _ => ErrorCodes::Spec,
        };
        let (_, title, detail) = self.words();
        let mut message = match (profile, detail) {
            (_, Some(detail)) if title.is_empty() => detail,
            (ErrorCodes::Spec, Some(detail)) => format!("{title}: {detail}"),
            _ => title.to_owned(),
        };
        let mut data = self.data(era, profile);
        // The unversioned era has the data of the seeds, exactly.
        if era != Era::Unversioned {
            data["help"] = format!("{HELP}#{}", self.kind()).into();
        }
        if let Some(similar) = self.similar_tools(era) {
            message += &match similar.first() {
                Some(nearest) => format!("; did you mean {nearest:?}?"),
                None => "; tools/list has the names of all tools".to_owned(),
            };
        }
        for value in data.as_object_mut().into_iter().flatten() {
            if let (_, Value::String(text)) = value {
                *text = truncated(std::mem::take(text));
            }
        }
        ErrorObject {
            code: self.code(era, profile),
            message: truncated(message),
            data: Some(data),
        }
    }

    /// The kind, its standard title, and the detail of this case.
    fn words(&self) -> (&'static str, &'static str, Option<String>) {
        let some = |detail: &str| Some(detail.to_owned());
        match self {
            Self::Parse(detail) => ("parse_error", "Parse error", some(detail)),
            Self::InvalidRequest { detail, .. } => {
                ("invalid_request", "Invalid Request", some(detail))
            }
            Self::MethodNotFound { method, similar } => {
                let similar = similar.as_ref();
                let hint = similar.map(|name| format!("; did you mean {name:?}?"));
                let detail = format!("{method}{}", hint.unwrap_or_default());
                ("method_not_found", "Method not found", Some(detail))
            }
            Self::InvalidParams(bad) | Self::Malformed(bad) => {
                ("invalid_params", "Invalid params", Some(one_line(bad)))
            }
            Self::MissingCapability(_) => {
                let title = "Missing required client capability";
                ("missing_client_capability", title, None)
            }
            Self::ToolNotFound {
                name, is_internal, ..
            } => match is_internal {
                true => {
                    let detail = format!("Internal error: Tool not found: {name}");
                    ("tool_not_found", "", Some(detail))
                }
                false => ("tool_not_found", "Tool not found", some(name)),
            },
            Self::ResourceNotFound(uri) => ("resource_not_found", "Resource not found", some(uri)),
            Self::PromptNotFound(name) => ("prompt_not_found", "Prompt not found", some(name)),
            Self::ToolFailed(error) => (error.kind().as_str(), "", some(error.message())),
            Self::TaskSupport(detail) => ("task_support", "Method not found", some(detail)),
            Self::Relayed(error) => ("upstream", "", some(&error.message)),
            Self::Internal => ("internal", "Internal error", None),
            Self::Unauthorized(found) => (
                "unauthorized",
                "Authentication failed",
                Some(found.problem()),
            ),
            Self::SessionNotFound => (
                "session_not_found",
                "Session not found",
                some("initialize again"),
            ),
            Self::Forbidden(detail) => ("forbidden", "Forbidden", some(detail)),
            Self::InsufficientScope(scopes) => {
                let detail = format!("the token needs: {scopes}");
                ("insufficient_scope", "Insufficient scope", Some(detail))
            }
            Self::RateLimited(_) => ("rate_limited", "Rate limit exceeded", None),
            Self::TooManyInFlight(limit) => {
                let detail =
                    format!("the limit is {limit}; try again when one of them is answered");
                (
                    "too_many_in_flight",
                    "Too many requests in flight",
                    Some(detail),
                )
            }
            Self::TooLarge(limit) => {
                let detail = format!("the limit is {limit} bytes");
                ("too_large", "Request too large", Some(detail))
            }
            Self::UnsupportedVersion {
                requested,
                is_old_transport,
            } => {
                let advice = " on the transport of 2024-11-05: send initialize, or POST to /mcp";
                let advice = if *is_old_transport { advice } else { "" };
                let detail = format!("{requested}{advice}");
                (
                    "unsupported_version",
                    "Unsupported protocol version",
                    Some(detail),
                )
            }
            Self::HeaderMismatch(detail) => ("header_mismatch", "Header mismatch", some(detail)),
        }
    }

    /// The tools with almost the name that was asked for. `None` for other errors, and for the seeds, whose errors have the
    /// whole list.
    fn similar_tools(&self, era: Era) -> Option<Vec<&str>> {
        let Self::ToolNotFound {
            name,
            available,
            is_internal: false,
        } = self
        else {
            return None;
        };
        let mut similar = nearest(name, available.iter().map(String::as_str));
        similar.truncate(MAX_SIMILAR);
        (era != Era::Unversioned).then_some(similar)
    }

    fn data(&self, era: Era, profile: ErrorCodes) -> Value {
        let mut data = json!({"kind": self.kind()});
        match self {
            Self::Parse(detail) => data["detail"] = json!(detail),
            Self::InvalidRequest { detail, field } => {
                data["detail"] = json!(detail);
                if let Some(field) = field {
                    data["field"] = json!(field);
                }
            }
            Self::MethodNotFound { method, .. } => data["method"] = json!(method),
            Self::MissingCapability(required) => {
                data["requiredCapabilities"] = (**required).clone()
            }
            Self::InvalidParams(bad) | Self::Malformed(bad) => {
                data["field"] = json!(bad.field);
                let reason = match profile {
                    ErrorCodes::Codefluss => "error",
                    _ => "reason",
                };
                data[reason] = json!(bad.reason);
                if let (Some(schema), ErrorCodes::Extended) = (&bad.schema, profile) {
                    data["schema"] = (**schema).clone();
                }
            }
            Self::ToolNotFound {
                name, available, ..
            } => {
                data["toolName"] = json!(name);
                match self.similar_tools(era) {
                    Some(similar) => data["similarTools"] = json!(similar),
                    None => data["availableTools"] = json!(available),
                }
            }
            Self::Unauthorized(found) => data["reason"] = json!(found.problem()),
            Self::TooManyInFlight(limit) | Self::TooLarge(limit) => data["limit"] = json!(limit),
            Self::UnsupportedVersion {
                requested,
                is_old_transport,
            } => {
                let mut supported = supported_versions();
                supported.retain(|version| !is_old_transport || *version != MODERN);
                data["requested"] = json!(requested);
                data["supported"] = json!(supported);
            }
            Self::ResourceNotFound(uri) => data["uri"] = json!(uri),
            Self::PromptNotFound(name) => data["promptName"] = json!(name),
            _ => {}
        }
        data
    }
}

/// Every version that `MCP-Protocol-Version` may name, newest first.
pub(crate) fn supported_versions() -> Vec<&'static str> {
    let handshake = Revision::ALL.iter().rev().map(|revision| revision.as_str());
    std::iter::once(MODERN).chain(handshake).collect()
}

impl From<ToolError> for Error {
    fn from(mut error: ToolError) -> Self {
        match error.take_rpc() {
            Some(RpcError::Relayed(error)) => Self::Relayed(Box::new(error)),
            Some(RpcError::MissingCapability(missing)) => {
                Self::MissingCapability(Box::new(missing))
            }
            None => Self::ToolFailed(error),
        }
    }
}

impl From<ArgumentError> for Error {
    fn from(error: ArgumentError) -> Self {
        Self::InvalidParams(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotJson(detail) => Self::Parse(detail),
            fault => Self::InvalidRequest {
                detail: fault.to_string(),
                field: fault.field(),
            },
        }
    }
}

impl Error {
    /// The code of the kind in a dialect. Kinds that the specification has no code for have one outside of the range
    /// that it reserves.
    fn code(&self, era: Era, profile: ErrorCodes) -> i32 {
        // In the order of the profiles.
        let of = |codes: [i32; 3]| codes[profile as usize];
        match self {
            Self::Parse(_) => PARSE_ERROR,
            Self::InvalidRequest { .. } => INVALID_REQUEST,
            Self::MethodNotFound { .. } | Self::TaskSupport(_) => METHOD_NOT_FOUND,
            Self::Relayed(error) => error.code,
            Self::Malformed(_) => INVALID_PARAMS,
            Self::InvalidParams(_) => of([INVALID_PARAMS, INVALID_PARAMS, -32001]),
            Self::MissingCapability(_) => -32021,
            Self::ToolNotFound { is_internal, .. } if *is_internal => INTERNAL_ERROR,
            Self::ToolNotFound { .. } => of([INVALID_PARAMS, INVALID_PARAMS, -32007]),
            // The code of the legacy era, which the modern era forbids.
            Self::ResourceNotFound(_) if matches!(era, Era::Legacy(_)) => -32002,
            Self::ResourceNotFound(_) => of([INVALID_PARAMS, -32003, -32006]),
            Self::PromptNotFound(_) => of([INVALID_PARAMS, INVALID_PARAMS, -32008]),
            Self::ToolFailed(_) if era != Era::Unversioned => INTERNAL_ERROR,
            Self::ToolFailed(error) => match error.kind() {
                ToolErrorKind::Timeout => of([50400, 50400, -32012]),
                _ => -32000,
            },
            Self::Internal => of([INTERNAL_ERROR, INTERNAL_ERROR, -32002]),
            Self::Unauthorized(_) => of([40100, -32001, -32009]),
            Self::SessionNotFound => 40400,
            Self::Forbidden(_) | Self::InsufficientScope(_) => of([40300, -32002, -32010]),
            Self::RateLimited(_) | Self::TooManyInFlight(_) => of([42900, -32000, -32011]),
            Self::TooLarge(_) => 41300,
            Self::UnsupportedVersion { .. } => -32022,
            Self::HeaderMismatch(_) => -32020,
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
fn render_relayed(error: &ErrorObject, era: Era) -> ErrorObject {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_000_names_the_field_and_the_error() {
        let missing = "Required field missing";
        let error = Error::InvalidParams(ArgumentError::new("projectId", missing));
        let object = error.render(Era::Unversioned, ErrorCodes::Codefluss);
        assert_eq!(object.message, "Invalid params");
        let data = json!({"kind": "invalid_params", "field": "projectId", "error": missing});
        assert_eq!(object.data, Some(data));
    }
}
