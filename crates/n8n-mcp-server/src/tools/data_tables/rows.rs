//! Reading rows.

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::MISSING;
use super::filter::{Condition, all};
use crate::api::Page;
use crate::id::Id;
use crate::service::N8n;
use crate::tools::answer::{Limit, page};

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
        let path = ["data-tables", self.data_table_id.as_str(), "rows"];
        let filter = (!self.r#where.is_empty()).then(|| all(&self.r#where).to_string());
        let mut query = Vec::new();
        query.extend(filter.as_deref().map(|filter| ("filter", filter)));
        query.extend(self.sort_by.as_deref().map(|by| ("sortBy", by)));
        let cursor = self.cursor.as_deref();
        let listed: Page<Value> = page(n8n, &path, &query, self.limit, cursor)
            .await
            .map_err(missing)?;
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

fn missing(error: ToolError) -> ToolError {
    if error.kind() == mcp_core::tool::ToolErrorKind::NotFound {
        ToolError::not_found(MISSING)
    } else {
        error
    }
}
