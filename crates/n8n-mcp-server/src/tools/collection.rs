//! Lists, changes and deletes objects in n8n's collections.

use mcp_core::tool::{Bounded, Call, ToolError};
use n8n_workflow::Id;
use n8n_workflow::draft::hidden_places;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use upstream::http::{HttpFailure, Method};
use upstream::redact::HIDDEN;

use crate::api::{N8nFailure as _, Page, change_error};
use crate::service::N8n;

/// Page size of every list.
pub(super) type Limit = Bounded<1, 250>;

pub(super) const DEFAULT_LIMIT: u32 = 100;
/// Longer than any cursor of n8n.
const MAX_CURSOR_LEN: usize = 1_000;

/// All of n8n's objects of one kind.
pub(super) struct Collection {
    /// The path in the API.
    pub(super) path: &'static str,
    /// The error for an unknown id.
    pub(super) missing: &'static str,
}

/// The id of the deleted object.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Deleted {
    pub(crate) deleted: String,
}

impl Collection {
    /// One page of the list.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        n8n: &N8n,
        limit: Option<Limit>,
        cursor: Option<String>,
    ) -> Result<(Vec<T>, Option<String>), ToolError> {
        self.page_of(n8n, &[], &[], limit, cursor).await
    }

    /// One page of the list, or of one below it, with an additional query: rows and next cursor.
    pub(super) async fn page_of<T: DeserializeOwned>(
        &self,
        n8n: &N8n,
        below: &[&str],
        query: &[(&str, &str)],
        limit: Option<Limit>,
        cursor: Option<String>,
    ) -> Result<(Vec<T>, Option<String>), ToolError> {
        check_cursor(cursor.as_deref())?;
        let limit = limit.map_or(DEFAULT_LIMIT, Bounded::get).to_string();
        let mut pairs = vec![("limit", limit.as_str())];
        pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        pairs.extend(query);
        let page = n8n.api.get(&[&[self.path], below].concat(), &pairs).await;
        let page: Page<T> = page.map_err(|failure| refusal(failure, self.missing))?;
        Ok((page.data, page.next_cursor))
    }

    /// Sends a change of the list, or of an object `below` it.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        n8n: &N8n,
        method: Method,
        below: &[&str],
        body: &Value,
    ) -> Result<T, ToolError> {
        let path = [&[self.path], below].concat();
        let sent = n8n.api.send(method, &path, body).await;
        sent.map_err(|failure| refused_change(failure, self.missing))
    }

    /// Deletes an object, once the user has agreed to the `loss` (`{id}` stands for the id).
    pub(super) async fn delete(
        &self,
        n8n: &N8n,
        call: &Call,
        id: &Id,
        confirm: Option<String>,
        loss: &str,
    ) -> Result<Deleted, ToolError> {
        let id = id.as_str();
        let loss = loss.replace("{id}", id);
        call.confirm(&loss, id, confirm.as_deref()).await?;
        let request = n8n.api.request(Method::DELETE, &[self.path, id]);
        let deleted = request.json::<IgnoredAny>().await;
        deleted.map_err(|failure| refused_change(failure, self.missing))?;
        let deleted = id.to_owned();
        Ok(Deleted { deleted })
    }
}

/// Rejects a cursor that n8n would not accept.
pub(super) fn check_cursor(cursor: Option<&str>) -> Result<(), ToolError> {
    match cursor {
        Some(cursor) if cursor.len() > MAX_CURSOR_LEN => Err(ToolError::invalid_argument(
            "`cursor` is longer than any cursor of n8n.",
        )),
        _ => Ok(()),
    }
}

/// Rejects the placeholder of a hidden value in what a caller gives: n8n would store it in place of the value.
pub(super) fn refuse_placeholder(name: &str, given: &impl Serialize) -> Result<(), ToolError> {
    let given = serde_json::to_value(given).unwrap_or_default();
    let places = hidden_places(name, &given);
    if places.is_empty() {
        return Ok(());
    }
    Err(ToolError::invalid_argument(format!(
        "Nothing was written: `{}`: `{HIDDEN}` stands for a hidden value, which this server cannot put back here. \
         Write the real value, or leave it out to keep what is there.",
        places.join("`, `")
    )))
}

/// The error for a failed change, which may have happened in spite of it.
pub(super) fn refused_change(failure: HttpFailure, missing: &str) -> ToolError {
    change_error(failure, |failure| refusal(failure, missing))
}

/// The error for a failed request: n8n's own words about wrong arguments, `missing` for an unknown
/// id.
pub(super) fn refusal(failure: HttpFailure, missing: &str) -> ToolError {
    if let Some(complaint) = failure.complaint() {
        return ToolError::invalid_argument(format!("n8n does not accept this: {complaint}"));
    }
    if failure.is_missing() && !failure.is_unknown_operation() {
        return ToolError::not_found(missing);
    }
    if failure.is_conflict() {
        return ToolError::conflict("n8n has that already, or it is in use.");
    }
    failure.into()
}
