//! Lists, changes and deletes objects in n8n's collections. Some lists are filtered here, since n8n knows neither
//! the policy of this server nor archived workflows: before they are cut, so that a page has rows as long as there
//! are any.

use std::future::Future;

use mcp_core::tool::{Bounded, Call, ToolError};
use n8n_workflow::draft::hidden_places;
use n8n_workflow::{Id, Name};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use upstream::http::{HttpFailure, Method};
use upstream::redact::HIDDEN;

use crate::api::{Page, RawPage, Rest, complaint, is_conflict, is_missing, is_too_old};
use crate::service::N8n;

/// Page size of every list.
pub(super) type Limit = Bounded<1, 250>;

pub(super) const DEFAULT_LIMIT: u32 = 100;

/// All of n8n's objects of one kind.
pub(super) struct Collection {
    /// The name of a row in texts.
    pub(super) kind: &'static str,
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
    /// One page of the list, or of one below it, with an additional query; rows that cannot be read are left out.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        n8n: &N8n,
        below: &[&str],
        query: &[(&str, &str)],
        limit: Option<Limit>,
        cursor: Option<String>,
    ) -> Result<Page<T>, ToolError> {
        let limit = limit.map_or(DEFAULT_LIMIT, Bounded::get).to_string();
        let mut pairs = vec![("limit", limit.as_str())];
        pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        pairs.extend(query);
        let page = n8n.api.get(&[&[self.path], below].concat(), &pairs).await;
        let page: RawPage = page.map_err(|failure| refusal(failure, self.missing))?;
        Ok(page.read(self.kind))
    }

    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        n8n: &N8n,
        method: Method,
        below: &[&str],
        body: &Value,
    ) -> Result<T, ToolError> {
        let path = [&[self.path], below].concat();
        let sent = n8n.api.send(method, &path, body).await;
        sent.map_err(|failure| refusal(failure, self.missing))
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
        deleted.map_err(|failure| refusal(failure, self.missing))?;
        let deleted = id.to_owned();
        Ok(Deleted { deleted })
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

/// Rejects a name that is blank, as [`Name`] does where none may be left out.
pub(super) fn refuse_blank(place: &str, name: &str) -> Result<(), ToolError> {
    let named = Name::try_from(name.to_owned()).map(drop);
    named.map_err(|fault| ToolError::invalid_argument(format!("`{place}`: {fault}.")))
}

/// The error for a failed request: n8n's own words about wrong arguments, `missing` for an unknown
/// id.
pub(super) fn refusal(failure: HttpFailure, missing: &str) -> ToolError {
    if let Some(complaint) = complaint(&failure) {
        return ToolError::invalid_argument(format!("n8n does not accept this: {complaint}"));
    }
    if is_missing(&failure) && !is_too_old(&failure) {
        return ToolError::not_found(missing);
    }
    if is_conflict(&failure) {
        return ToolError::conflict("n8n has that already, or it is in use.");
    }
    failure.into()
}

const MAX_PAGES: usize = 8;
/// Between n8n's cursor and the number of its rows that were shown already; not in any cursor of n8n.
const SKIP_MARK: char = '~';

/// Returns at most `limit` rows. `fetch` returns a page of n8n by its cursor, with `None` for the rows
/// to leave out.
pub(super) async fn filtered_page<T, F>(
    limit: usize,
    cursor: Option<&str>,
    fetch: impl Fn(Option<String>) -> F,
) -> Result<Page<T>, ToolError>
where
    F: Future<Output = Result<Page<Option<T>>, ToolError>>,
{
    let (mut cursor, mut skip) = read_cursor(cursor.unwrap_or_default());
    let (data, rest) = (Vec::new(), Rest::default());
    let mut all = Page { data, rest };
    for _ in 0..MAX_PAGES {
        let page = fetch(cursor.clone()).await?;
        all.rest.left_out.extend(page.rest.left_out);
        for (at, row) in page.data.into_iter().enumerate().skip(skip) {
            if all.data.len() == limit && row.is_some() {
                let cursor = cursor.unwrap_or_default();
                all.rest.next_cursor = Some(format!("{cursor}{SKIP_MARK}{at}"));
                return Ok(all);
            }
            all.data.extend(row);
        }
        (cursor, skip) = (page.rest.next_cursor, 0);
        if cursor.is_none() || all.data.len() == limit {
            break;
        }
    }
    all.rest.next_cursor = cursor;
    Ok(all)
}

/// n8n's cursor, and the number of rows of its page to skip.
fn read_cursor(text: &str) -> (Option<String>, usize) {
    let marked = text.rsplit_once(SKIP_MARK);
    let marked = marked.and_then(|(cursor, skip)| Some((cursor, skip.parse().ok()?)));
    let (cursor, skip) = marked.unwrap_or((text, 0));
    (
        Some(cursor.to_owned()).filter(|cursor| !cursor.is_empty()),
        skip,
    )
}
