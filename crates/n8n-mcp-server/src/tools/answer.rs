//! What the tools around workflows have in common: pages of lists, and n8n's refusals in words.

use mcp_core::tool::{Bounded, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use upstream::http::Failure;

use crate::api::{N8nFailure as _, Page};
use crate::service::N8n;

/// Page size of every list.
pub(super) type Limit = Bounded<1, 250>;

const DEFAULT_LIMIT: u32 = 100;
/// Longer than any cursor of n8n.
const MAX_CURSOR: usize = 1_000;

/// What was deleted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Deleted {
    pub(crate) deleted: String,
}

/// One page of the list at `path`.
pub(super) async fn page<T: DeserializeOwned>(
    n8n: &N8n,
    path: &[&str],
    more: &[(&str, &str)],
    limit: Option<Limit>,
    cursor: Option<&str>,
) -> Result<Page<T>, ToolError> {
    check_cursor(cursor)?;
    let limit = limit.map_or(DEFAULT_LIMIT, Bounded::get).to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(cursor.map(|cursor| ("cursor", cursor)));
    query.extend(more);
    let listed = n8n.api.get(path, &query).await;
    listed.map_err(|failure| refusal(failure, "n8n has no such thing."))
}

/// Refuses what n8n would not even read.
pub(super) fn check_cursor(cursor: Option<&str>) -> Result<(), ToolError> {
    match cursor {
        Some(cursor) if cursor.len() > MAX_CURSOR => Err(ToolError::invalid_argument(
            "`cursor` is longer than any cursor of n8n.",
        )),
        _ => Ok(()),
    }
}

/// n8n's refusal: of the arguments in its own words, of what does not exist as `missing` says.
pub(super) fn refusal(failure: Failure, missing: &str) -> ToolError {
    if let Some(complaint) = failure.complaint() {
        return ToolError::invalid_argument(format!("n8n does not accept this: {complaint}"));
    }
    if failure.is_unknown_operation() {
        return failure.into();
    }
    if failure.is_missing() {
        return ToolError::not_found(missing);
    }
    if failure.is_conflict() {
        return ToolError::new(
            ToolErrorKind::Conflict,
            "n8n has that already, or it is in use.",
        );
    }
    failure.into()
}
