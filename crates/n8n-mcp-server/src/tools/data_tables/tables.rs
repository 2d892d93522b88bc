//! Tools that list, create and delete data tables.

use crate::tools::prelude::*;

pub(super) const TABLES: Collection = Collection {
    path: "data-tables",
    missing: "n8n has no such data table. list_data_tables shows those that it has.",
};

/// Lists the data tables of n8n with their columns.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDataTables {
    /// Page size; default 100.
    limit: Option<Limit>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Tables {
    data_tables: Vec<Table>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Table {
    id: String,
    name: String,
    #[serde(default)]
    columns: Vec<Column>,
}

/// A column.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Column {
    name: String,
    r#type: String,
}

impl Tool for ListDataTables {
    const NAME: &'static str = "list_data_tables";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Tables;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Tables, ToolError> {
        let (data_tables, next_cursor) = TABLES.page(n8n, self.limit, self.cursor).await?;
        Ok(Tables {
            data_tables,
            next_cursor,
        })
    }
}

/// Creates a data table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateDataTable {
    /// Display name.
    name: String,
    /// Beside id, createdAt and updatedAt, which every table has.
    columns: Vec<NewColumn>,
    /// Project that it goes to; default: your own.
    project_id: Option<Id>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewColumn {
    /// Letters, digits and `_`; a letter first.
    name: String,
    /// Of its values.
    r#type: ColumnType,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ColumnType {
    String,
    Number,
    Boolean,
    Date,
}

impl Tool for CreateDataTable {
    const NAME: &'static str = "create_data_table";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Table;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Table, ToolError> {
        let mut body = json!({"name": self.name, "columns": self.columns});
        if let Some(project) = self.project_id {
            body["projectId"] = project.as_str().into();
        }
        TABLES.send(n8n, Method::POST, &[], &body).await
    }
}

/// Deletes a data table with all of its rows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteDataTable {
    /// From list_data_tables.
    data_table_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteDataTable {
    const NAME: &'static str = "delete_data_table";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let loss = "Deletes data table {id} of n8n with all of its rows.";
        TABLES
            .delete(n8n, call, &self.data_table_id, self.confirm, loss)
            .await
    }
}
