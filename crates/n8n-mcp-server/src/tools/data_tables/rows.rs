//! The rows of data tables.

use std::collections::HashSet;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use upstream::http::Method;

use super::filter::{Condition, all};
use super::tables::TABLES;
use crate::api::Page;
use crate::id::Id;
use crate::service::N8n;
use crate::tools::collection::{Limit, refusal};

/// The rows of a data table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetDataTableRows {
    /// From list_data_tables.
    data_table_id: Id,
    /// Only rows that meet all of these.
    #[serde(default)]
    r#where: Vec<Condition>,
    /// For example createdAt:desc.
    sort_by: Option<String>,
    /// Page size; default 100.
    limit: Option<Limit>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Rows {
    rows: Vec<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Tool for GetDataTableRows {
    const NAME: &'static str = "get_data_table_rows";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Rows;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Rows, ToolError> {
        let filter = (!self.r#where.is_empty()).then(|| all(&self.r#where).to_string());
        let mut query = Vec::new();
        query.extend(filter.as_deref().map(|filter| ("filter", filter)));
        query.extend(self.sort_by.as_deref().map(|by| ("sortBy", by)));
        let path = [self.data_table_id.as_str(), "rows"];
        let (limit, cursor) = (self.limit, self.cursor);
        let listed: Page<Value> = TABLES.page_of(n8n, &path, &query, limit, cursor).await?;
        let rows = listed.data.into_iter().map(|mut row| {
            n8n.redactor.json(&mut row);
            match row {
                Value::Object(row) => row,
                _ => Map::new(),
            }
        });
        Ok(Rows {
            rows: rows.collect(),
            next_cursor: listed.next_cursor,
        })
    }
}

/// How many rows were changed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Changed {
    rows: usize,
}

/// Adds rows to a data table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InsertDataTableRows {
    /// From list_data_tables.
    data_table_id: Id,
    /// Values by name of the column.
    rows: Vec<Map<String, Value>>,
}

impl Tool for InsertDataTableRows {
    const NAME: &'static str = "insert_data_table_rows";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Changed;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Changed, ToolError> {
        let path = [self.data_table_id.as_str(), "rows"];
        let body = json!({"data": self.rows, "returnType": "id"});
        let rows = TABLES.send(n8n, Method::POST, &path, &body).await?;
        Ok(changed(&rows))
    }
}

/// Changes the rows of a data table that meet all conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateDataTableRows {
    /// From list_data_tables.
    data_table_id: Id,
    /// The rows that are meant; at least one condition.
    r#where: Vec<Condition>,
    /// New values by name of the column.
    set: Map<String, Value>,
    /// Add a row where none meets the conditions.
    #[serde(default)]
    or_insert: bool,
}

impl Tool for UpdateDataTableRows {
    const NAME: &'static str = "update_data_table_rows";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Changed;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Changed, ToolError> {
        let (method, action) = if self.or_insert {
            (Method::POST, "upsert")
        } else {
            (Method::PATCH, "update")
        };
        let path = [self.data_table_id.as_str(), "rows", action];
        let filter = all(named(&self.r#where)?);
        let body = json!({"filter": filter, "data": self.set, "returnData": true});
        let rows = TABLES.send(n8n, method, &path, &body).await?;
        Ok(changed(&rows))
    }
}

/// Deletes the rows of a data table that meet all conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteDataTableRows {
    /// From list_data_tables.
    data_table_id: Id,
    /// The rows that are meant; at least one condition.
    r#where: Vec<Condition>,
    /// The id of the table again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteDataTableRows {
    const NAME: &'static str = "delete_data_table_rows";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Changed;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Changed, ToolError> {
        let id = self.data_table_id.as_str();
        let path = ["data-tables", id, "rows", "delete"];
        let filter = all(named(&self.r#where)?).to_string();
        // How many it would be is what the user wants to know.
        let query = |dry: &'static str| {
            [
                ("filter", filter.as_str()),
                ("returnData", "true"),
                ("dryRun", dry),
            ]
        };
        let delete = async |dry| {
            let request = n8n.api.request(Method::DELETE, &path).query(&query(dry));
            let rows = request.json().await;
            rows.map(|rows| changed(&rows))
                .map_err(|failure| refusal(failure, TABLES.missing))
        };
        let Changed { rows } = delete("true").await?;
        let loss = format!("Deletes {rows} rows of data table {id} of n8n.");
        call.confirm(&loss, id, self.confirm.as_deref()).await?;
        delete("false").await
    }
}

/// Conditions, of which there must be one: none would mean every row.
fn named(conditions: &[Condition]) -> Result<&[Condition], ToolError> {
    if conditions.is_empty() {
        return Err(ToolError::invalid_argument(
            "`where` is empty: say which rows are meant.",
        ));
    }
    Ok(conditions)
}

fn changed(answer: &Value) -> Changed {
    let rows = answer.as_array().map_or(1, |rows| {
        // A dry run shows a row as it is, and without an id as it would be.
        let ids = rows.iter().filter_map(|row| match row {
            Value::Object(row) => row.get("id").filter(|id| !id.is_null()),
            id => Some(id),
        });
        ids.map(Value::to_string).collect::<HashSet<_>>().len()
    });
    Changed { rows }
}
