//! Texts for failures of requests to n8n, and their meaning.

use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Deserialize;
use upstream::http::{ErrorResponse, FailureTexts, HttpFailure, Method, StatusCode};
use upstream::redact::redacted_code;
use upstream::text::{clean, truncate};

use ToolErrorKind::{Conflict, Forbidden, NotFound, Unauthorized, Unavailable, Upstream};

/// n8n's reasons against publishing have a line for each fault of each node.
const MAX_COMPLAINT_CHARS: usize = 4_000;

pub(super) const N8N_1: &str =
    "n8n at {address} is n8n 1, and this server needs n8n 2: update n8n.";

pub(super) const WORDING: FailureTexts = FailureTexts {
    unreachable: "n8n at {address} cannot be reached: {cause}. Start it, or set N8N_URL to \
        its address.",
    timeout: "n8n at {address} did not answer within {seconds} s.",
    interrupted: "n8n at {address} closed the connection before its answer was complete.",
    too_large: "n8n's answer is larger than {mib} MiB. Request less, for example with a smaller \
                limit.",
    unreadable: "The server at {address} does not answer like n8n's API: {cause}. If it is n8n, this server cannot \
        read what n8n holds there; else set N8N_URL to the address of n8n itself, with its path prefix if it has one.",
    may_have_changed: "It may have happened all the same: look before you repeat it.",
    has_changed: "n8n has accepted the request all the same: do not repeat it before you have looked.",
    no_credential: "No API key for n8n at {address} is configured. Create one in n8n (Settings > \
                    n8n API) and set N8N_API_KEY or N8N_API_KEY_FILE.",
    credential_unreadable: "The file that N8N_API_KEY_FILE names cannot be read (yet); it must \
        contain the API key of n8n at {address}.",
    credential_invalid: "N8N_API_KEY contains characters that an API key cannot have. Copy the \
        key again from n8n (Settings > n8n API).",
    statuses: &[
        (
            401..=401,
            Unauthorized,
            "n8n at {address} refuses the API key. Create a new one in n8n (Settings > n8n API) and \
             set N8N_API_KEY or N8N_API_KEY_FILE.",
        ),
        (
            404..=404,
            Upstream,
            "There is no n8n API at {address}. Check N8N_URL, and that n8n's public API is not \
             disabled.",
        ),
        (
            409..=409,
            Conflict,
            "n8n refuses this in the current state of the workflow or execution.",
        ),
        (
            429..=429,
            Unavailable,
            "n8n at {address} limits the rate of requests. {retry}",
        ),
        (
            502..=504,
            Unavailable,
            "n8n at {address} is not ready (HTTP {status}). Try again in a while.",
        ),
        (
            300..=399,
            Upstream,
            "The server at {address} redirects. Set N8N_URL to the address that it redirects to.",
        ),
        (
            0..=999,
            Upstream,
            "n8n at {address} answered with HTTP {status}. Its log has the cause.",
        ),
    ],
    refusal,
    reason: message,
};

/// The error for a response whose meaning follows from n8n's message or from the request.
fn refusal(refusal: &ErrorResponse, address: &str) -> Option<(ToolErrorKind, String)> {
    let message = message(refusal);
    let licence = message.as_deref().filter(|text| text.contains("license"));
    match (refusal.status().as_u16(), licence) {
        (403, Some(licence)) => {
            let feature = feature(licence).map(|feature| format!(" ({feature})"));
            let feature = feature.unwrap_or_default();
            let text = format!("The licence of n8n at {address} does not include this{feature}.");
            Some((Forbidden, text))
        }
        (403, None) => {
            let path: Vec<&str> = refusal.path().iter().skip(2).map(String::as_str).collect();
            let scope = scope(refusal.method(), &path).map(|scope| format!("scope {scope}"));
            let scope = scope.as_deref().unwrap_or("scope for this");
            let text = format!(
                "The API key lacks the {scope} on n8n at {address}. Add it to the key (Settings > \
                 n8n API)."
            );
            Some((Unauthorized, text))
        }
        _ if is_unknown_operation(refusal) => {
            let text =
                format!("This n8n at {address} does not offer that through its API: update n8n.");
            Some((Upstream, text))
        }
        (404, _) if message.is_some() => {
            Some((NotFound, "n8n has no such object. Check the id.".to_owned()))
        }
        _ => None,
    }
}

/// n8n's own message; `None` if the body is not n8n's JSON.
fn message(refusal: &ErrorResponse) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        message: String,
    }
    refusal.json::<Body>().map(|body| body.message)
}

/// n8n replies "not found" for an unknown path and "Not Found" for an unknown id.
fn is_unknown_operation(refusal: &ErrorResponse) -> bool {
    match refusal.status() {
        StatusCode::METHOD_NOT_ALLOWED => true,
        StatusCode::NOT_FOUND => message(refusal).as_deref() == Some("not found"),
        _ => false,
    }
}

/// The feature in n8n's message about its licence, such as `feat:variables`.
fn feature(message: &str) -> Option<&str> {
    let mut words = message.split_whitespace();
    let word = words.find(|word| word.starts_with("feat:"))?;
    Some(word.trim_end_matches(['.', ',']))
}

/// The error of a later step, which says what was done before it.
pub(crate) fn after(done: &str, error: ToolError) -> ToolError {
    let message = format!("{done} {}", error.message());
    ToolError::new(error.kind(), message).caused_by(error)
}

/// n8n's own message about an invalid request (HTTP 400), all lines of it.
pub(crate) fn complaint(failure: &HttpFailure) -> Option<String> {
    let refusal = failure.refusal();
    let refusal = refusal.filter(|one| one.status() == StatusCode::BAD_REQUEST)?;
    let text = message(refusal)?;
    // For the editor n8n adds advice in HTML.
    let text = text.split(" <br/>").next().unwrap_or_default();
    Some(truncate(
        redacted_code(&clean(text)).trim(),
        MAX_COMPLAINT_CHARS,
    ))
}

/// True if this n8n is too old for the operation.
pub(crate) fn is_too_old(failure: &HttpFailure) -> bool {
    failure.refusal().is_some_and(is_unknown_operation)
}

/// True if the path is valid but the id in it is unknown.
pub(crate) fn is_missing(failure: &HttpFailure) -> bool {
    let is_missing =
        |one: &ErrorResponse| one.status() == StatusCode::NOT_FOUND && message(one).is_some();
    failure.refusal().is_some_and(is_missing)
}

/// True if n8n does not have the execution, or its id is not a number.
pub(crate) fn is_no_execution(failure: &HttpFailure) -> bool {
    is_missing(failure) || failure.status() == Some(StatusCode::BAD_REQUEST)
}

pub(crate) fn is_conflict(failure: &HttpFailure) -> bool {
    failure.status() == Some(StatusCode::CONFLICT)
}

/// The scope of an API key that a request needs, for which n8n itself replies only "Forbidden": n8n's name of
/// it, for example `workflow:read`; `None` if it is not known.
pub(crate) fn scope(method: &Method, path: &[&str]) -> Option<String> {
    let resource = match *path.first()? {
        "audit" => return Some("securityAudit:generate".to_owned()),
        "source-control" => "sourceControl",
        "data-tables" if path.get(2) == Some(&"rows") => "dataTableRow",
        "data-tables" if path.get(2) == Some(&"columns") => "dataTableColumn",
        "data-tables" => "dataTable",
        "community-packages" => "communityPackage",
        "projects" if path.get(2) == Some(&"folders") => "folder",
        "projects" if path.get(2) == Some(&"users") && *method != Method::GET => {
            return Some("project:manageMembers".to_owned());
        }
        "workflows" if path.get(2) == Some(&"tags") => "workflowTags",
        plural => plural.strip_suffix('s')?,
    };
    let action = match (method, path) {
        (_, ["source-control", "status"]) => "read",
        (_, ["source-control", action]) => action,
        (_, ["users", _, "role"]) => "changeRole",
        (_, ["credentials", _, "test"]) => "read",
        (_, ["data-tables", _, "rows", "upsert"]) => "upsert",
        (&Method::PUT, [_, _, "transfer"]) => "move",
        (&Method::GET, [_] | [_, _, "tags" | "folders"]) => "list",
        (&Method::GET, _) => "read",
        (&Method::POST, ["community-packages"]) => "install",
        (&Method::DELETE, ["community-packages", _]) => "uninstall",
        (&Method::POST, [_] | [_, _, "rows" | "columns" | "users" | "folders"]) => "create",
        (&Method::POST, [_, _, action]) => action,
        (&Method::DELETE, _) => "delete",
        _ => "update",
    };
    Some(format!("{resource}:{action}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_named_as_n8n_names_them() {
        for (method, path, expected) in [
            ("GET", "workflows", "workflow:list"),
            ("POST", "workflows/1/activate", "workflow:activate"),
            ("PUT", "workflows/1/tags", "workflowTags:update"),
            ("POST", "executions/1/retry", "execution:retry"),
            ("POST", "audit", "securityAudit:generate"),
            ("POST", "source-control/pull", "sourceControl:pull"),
            ("PUT", "workflows/1/transfer", "workflow:move"),
            ("GET", "projects/1/folders", "folder:list"),
            ("POST", "data-tables/1/rows", "dataTableRow:create"),
        ] {
            let path: Vec<_> = path.split('/').collect();
            let found = scope(&method.parse().unwrap(), &path);
            assert_eq!(found.as_deref(), Some(expected));
        }
    }
}
