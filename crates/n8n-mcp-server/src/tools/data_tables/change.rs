//! Changing rows.

use std::collections::HashSet;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use upstream::http::Method;

use super::MISSING;
use super::filter::{Condition, all};
use crate::id::Id;
use crate::service::N8n;
use crate::tools::answer::refusal;

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
        let path = ["data-tables", self.data_table_id.as_str(), "rows"];
        let body = json!({"data": self.rows, "returnType": "id"});
        changed(n8n.api.send(Method::POST, &path, &body).await)
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
        let path = ["data-tables", self.data_table_id.as_str(), "rows", action];
        let filter = all(named(&self.r#where)?);
        let body = json!({"filter": filter, "data": self.set, "returnData": true});
        changed(n8n.api.send(method, &path, &body).await)
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
        let delete = |dry| {
            n8n.api
                .request(Method::DELETE, &path)
                .query(&query(dry))
                .json()
        };
        let Changed { rows } = changed(delete("true").await)?;
        let loss = format!("Deletes {rows} rows of data table {id} of n8n.");
        call.confirm(&loss, id, self.confirm.as_deref()).await?;
        changed(delete("false").await)
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

fn changed(answer: Result<Value, upstream::http::Failure>) -> Result<Changed, ToolError> {
    let answer = answer.map_err(|failure| refusal(failure, MISSING))?;
    let rows = answer.as_array().map_or(1, |rows| {
        // A dry run shows a row as it is, and without an id as it would be.
        let ids = rows.iter().filter_map(|row| match row {
            Value::Object(row) => row.get("id").filter(|id| !id.is_null()),
            id => Some(id),
        });
        ids.map(Value::to_string).collect::<HashSet<_>>().len()
    });
    Ok(Changed { rows })
}
