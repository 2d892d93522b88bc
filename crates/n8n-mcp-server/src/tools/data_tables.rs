//! The toolset `data_tables`: n8n's own tables of rows.

use std::collections::BTreeSet;

use serde_json::Number;
use upstream::http::Request;
use upstream::redact::Redactor;

use crate::api::Rest;
use crate::tools::prelude::*;

pub(crate) fn data_tables() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListDataTables>()
        .with::<CreateDataTable>()
        .with::<DeleteDataTable>()
        .with::<GetDataTableRows>()
        .with::<InsertDataTableRows>()
        .with::<UpdateDataTableRows>()
        .with::<DeleteDataTableRows>()
}

const TABLES: Collection = Collection {
    kind: "Data table",
    path: "data-tables",
    missing: "n8n has no such data table. list_data_tables shows the data tables of n8n.",
};

/// The columns that n8n fills.
const OWN_COLUMNS: [&str; 3] = ["id", "createdAt", "updatedAt"];

/// Lists the data tables of n8n with their columns.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDataTables {
    /// The page size is 100 by default.
    limit: Option<Limit>,
    /// The previous page returns it as `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Tables {
    data_tables: Vec<Table>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Table {
    id: String,
    name: String,
    #[serde(default)]
    columns: Vec<Column>,
}

/// Rows have a value in it.
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
        let page = TABLES.page(n8n, &[], &[], self.limit, self.cursor).await?;
        Ok(Tables {
            data_tables: page.data,
            rest: page.rest,
        })
    }
}

/// Creates a data table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateDataTable {
    /// The name is shown in n8n.
    name: Name,
    /// Every table also has id, createdAt and updatedAt.
    columns: Vec<NewColumn>,
    /// It goes to this project, and to your own by default.
    project_id: Option<Id>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewColumn {
    /// A name has letters, digits and `_`, and begins with a letter.
    name: String,
    /// The values of the column have this type.
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
struct DeleteDataTable {
    /// list_data_tables shows the id.
    data_table_id: Id,
    /// Repeat the id once the user has agreed.
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

/// Shows the rows of a data table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetDataTableRows {
    /// list_data_tables shows the id.
    data_table_id: Id,
    /// Show only rows that meet all of these conditions.
    #[serde(default)]
    r#where: Vec<Condition>,
    /// Sort by a column, for example createdAt:desc.
    sort_by: Option<String>,
    /// The page size is 100 by default.
    limit: Option<Limit>,
    /// The previous page returns it as `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Rows {
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
        let redactor = n8n.redactor();
        refuse_guesses(&redactor, &self.r#where)?;
        if let Some(by) = &self.sort_by
            && is_hidden(&redactor, by.split(':').next().unwrap_or(by))
        {
            return Err(ToolError::invalid_argument(format!(
                "`sort_by`: the values of {by:?} are hidden, and their order would tell them."
            )));
        }
        let filter = (!self.r#where.is_empty()).then(|| all(&self.r#where).to_string());
        let filter = filter.as_deref().map(|filter| ("filter", filter));
        let sort_by = self.sort_by.as_deref().map(|by| ("sortBy", by));
        let query: Vec<_> = filter.into_iter().chain(sort_by).collect();
        let path = [self.data_table_id.as_str(), "rows"];
        let (limit, cursor) = (self.limit, self.cursor);
        let page = TABLES.page(n8n, &path, &query, limit, cursor).await;
        let page = page.map_err(|error| match &self.sort_by {
            // n8n fails at a column that the table does not have.
            Some(by) if error.message().contains("HTTP 500") => {
                let form = "write COLUMN:asc or COLUMN:desc with a column of the table";
                ToolError::invalid_argument(format!("n8n cannot sort by {by:?}: {form}."))
                    .caused_by(error)
            }
            _ => error,
        })?;
        let page = page.map(|mut row| {
            redactor.json(&mut row);
            match row {
                Value::Object(row) => row,
                _ => Map::new(),
            }
        });
        Ok(Rows {
            rows: page.data,
            next_cursor: page.rest.next_cursor,
        })
    }
}

#[derive(Serialize, JsonSchema)]
struct ChangedRows {
    rows: usize,
    /// The added rows have these ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<u64>,
}

/// Adds rows to a data table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InsertDataTableRows {
    /// list_data_tables shows the id.
    data_table_id: Id,
    /// The values go by the names of the columns.
    rows: Vec<Map<String, Value>>,
}

impl Tool for InsertDataTableRows {
    const NAME: &'static str = "insert_data_table_rows";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = ChangedRows;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<ChangedRows, ToolError> {
        let path = [self.data_table_id.as_str(), "rows"];
        refuse_placeholder("rows", &self.rows)?;
        let body = json!({"data": self.rows, "returnType": "id"});
        let rows: Value = TABLES.send(n8n, Method::POST, &path, &body).await?;
        let id = |row: &Value| row.get("id").unwrap_or(row).as_u64();
        let ids = rows
            .as_array()
            .map(|rows| rows.iter().filter_map(id).collect());
        Ok(ChangedRows {
            ids: ids.unwrap_or_default(),
            ..changed(&rows)
        })
    }
}

/// Changes the rows of a data table that meet all conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateDataTableRows {
    /// list_data_tables shows the id.
    data_table_id: Id,
    /// Rows that meet all conditions are meant; there must be one.
    r#where: Vec<Condition>,
    /// The new values go by the names of the columns.
    set: Map<String, Value>,
    /// Add a row with the values of `set` and of the conditions if none meets them; they must all be eq.
    #[serde(default)]
    or_insert: bool,
    /// Pass the value that the refused call names, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for UpdateDataTableRows {
    const NAME: &'static str = "update_data_table_rows";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = ChangedRows;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<ChangedRows, ToolError> {
        refuse_placeholder("set", &self.set)?;
        let id = self.data_table_id.as_str();
        let conditions = required(n8n, &self.r#where)?;
        let filter = all(conditions);
        let send = async |method, action, data: &Map<String, Value>, is_test: bool| {
            let mut body = json!({"filter": filter, "data": data, "returnData": true});
            if is_test {
                body["dryRun"] = true.into();
            }
            let path = ["data-tables", id, "rows", action];
            change(n8n.api.request(method, &path).body(&body), is_test).await
        };
        let new_row = self.or_insert.then(|| new_row(conditions, &self.set));
        let new_row = new_row.transpose()?;
        let (found, ids) = send(Method::PATCH, "update", &self.set, true).await?;
        if found.rows > 0 {
            let (rows, shown) = (found.rows, n8n.shown(&self.r#where));
            let loss = format!(
                "Overwrites {rows} rows of data table {id} of n8n, those with {shown}, by {}.",
                n8n.shown(&self.set)
            );
            let facts = json!((&self.r#where, &self.set, ids));
            let confirm = self.confirm.as_deref();
            call.confirm_facts(&loss, id, &facts, confirm).await?;
            return Ok(send(Method::PATCH, "update", &self.set, false).await?.0);
        }
        match new_row {
            Some(row) => Ok(send(Method::POST, "upsert", &row, false).await?.0),
            None => Ok(found),
        }
    }
}

/// The row that is added if none meets the conditions: one that meets them from then on.
fn new_row(
    conditions: &[Condition],
    set: &Map<String, Value>,
) -> Result<Map<String, Value>, ToolError> {
    let mut row = Map::new();
    for (at, one) in conditions.iter().enumerate() {
        if !matches!(one.is, Is::Eq) || OWN_COLUMNS.contains(&&*one.column) {
            return Err(ToolError::invalid_argument(format!(
                "`where[{at}]`: with `or_insert` a condition must be eq, and not on a column that n8n fills: the new \
                 row gets its value. Nothing was written."
            )));
        }
        if let Some(value) = &one.value {
            row.insert(one.column.clone(), json!(value));
        }
    }
    row.extend(set.clone());
    Ok(row)
}

/// Sends a change of rows, or a test of one, and returns the rows with their ids.
async fn change(
    request: Request,
    is_test: bool,
) -> Result<(ChangedRows, Option<BTreeSet<String>>), ToolError> {
    let rows = request.json().await.map_err(|failure| {
        let failure = if is_test {
            failure.without_effect()
        } else {
            failure
        };
        refusal(failure, TABLES.missing)
    })?;
    Ok((changed(&rows), ids_of(&rows)))
}

/// Deletes the rows of a data table that meet all conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteDataTableRows {
    /// list_data_tables shows the id.
    data_table_id: Id,
    /// Rows that meet all conditions are meant; there must be one.
    r#where: Vec<Condition>,
    /// Pass the value that the refused call names, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteDataTableRows {
    const NAME: &'static str = "delete_data_table_rows";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = ChangedRows;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<ChangedRows, ToolError> {
        let id = self.data_table_id.as_str();
        let path = ["data-tables", id, "rows", "delete"];
        let filter = all(required(n8n, &self.r#where)?).to_string();
        let delete = async |dry_run| {
            let query = [
                ("filter", filter.as_str()),
                ("returnData", "true"),
                ("dryRun", dry_run),
            ];
            let request = n8n.api.request(Method::DELETE, &path).query(&query);
            change(request, dry_run == "true").await
        };
        // The number of rows is important for the user's decision.
        let (ChangedRows { rows, .. }, ids) = delete("true").await?;
        let conditions = n8n.shown(&self.r#where);
        let loss =
            format!("Deletes {rows} rows of data table {id} of n8n: those with {conditions}.");
        let facts = json!((&self.r#where, ids));
        let confirm = self.confirm.as_deref();
        call.confirm_facts(&loss, id, &facts, confirm).await?;
        Ok(delete("false").await?.0)
    }
}

/// Rejects an empty list of conditions, which would select every row, and a hidden value, which would select others.
fn required<'a>(n8n: &N8n, conditions: &'a [Condition]) -> Result<&'a [Condition], ToolError> {
    refuse_placeholder("where", &conditions)?;
    refuse_guesses(&n8n.redactor(), conditions)?;
    if conditions.is_empty() {
        return Err(ToolError::invalid_argument(
            "`where` is empty: pass at least one condition.",
        ));
    }
    Ok(conditions)
}

/// Rejects comparisons that would tell a hidden value bit by bit, also by the number of rows.
fn refuse_guesses(redactor: &Redactor, conditions: &[Condition]) -> Result<(), ToolError> {
    let is_guess = |one: &&Condition| {
        !matches!(one.is, Is::Eq) && one.value.is_some() && is_hidden(redactor, &one.column)
    };
    match conditions.iter().find(is_guess) {
        None => Ok(()),
        Some(one) => Err(ToolError::invalid_argument(format!(
            "`where`: the values of column {:?} are hidden: only eq, and a comparison with null, are possible.",
            one.column
        ))),
    }
}

/// Returns true if the values of the column are hidden, whatever they are.
fn is_hidden(redactor: &Redactor, column: &str) -> bool {
    let mut row = Map::from_iter([(column.to_owned(), json!("x"))]).into();
    redactor.json(&mut row) > 0
}

fn changed(answer: &Value) -> ChangedRows {
    ChangedRows {
        rows: ids_of(answer).map_or(1, |ids| ids.len()),
        ids: Vec::new(),
    }
}

/// The ids of the rows in n8n's answer, if it lists them.
fn ids_of(answer: &Value) -> Option<BTreeSet<String>> {
    // A dry run returns each row twice: as it is, and, without an id, as it would be.
    let ids = answer.as_array()?.iter().filter_map(|row| match row {
        Value::Object(row) => row.get("id").filter(|id| !id.is_null()),
        id => Some(id),
    });
    Some(ids.map(Value::to_string).collect())
}

/// One condition on a row.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// The column has this name.
    column: String,
    /// The values are compared so; in that of like and ilike, % stands for any text.
    is: Is,
    /// Leave it out to compare with null.
    value: Option<Cell>,
}

// The value of a row in a column. (A doc comment would become a part of the tool's schema.)
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a value must be a string, a number, true or false"
)]
#[schemars(inline)]
enum Cell {
    Text(String),
    Number(Number),
    Bool(bool),
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Is {
    Eq,
    Neq,
    Like,
    Ilike,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// The filter of n8n for rows that meet all conditions.
fn all(conditions: &[Condition]) -> Value {
    let filter = |one: &Condition| json!({"columnName": one.column, "condition": one.is, "value": one.value});
    let filters: Vec<Value> = conditions.iter().map(filter).collect();
    json!({"type": "and", "filters": filters})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_row_meets_the_conditions() {
        let new = |conditions: Value| {
            let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
            let set = json!({"note": "new", "b": 2});
            new_row(&conditions, set.as_object().unwrap())
        };
        let eq = json!([
            {"column": "a", "is": "eq", "value": "x"},
            {"column": "b", "is": "eq", "value": 1},
            {"column": "c", "is": "eq"},
        ]);
        let row = json!({"a": "x", "b": 2, "note": "new"});
        assert_eq!(Value::Object(new(eq).unwrap()), row);
        for other in [
            json!({"column": "a", "is": "gte", "value": 1}),
            json!({"column": "id", "is": "eq", "value": 1}),
        ] {
            let ok = json!({"column": "b", "is": "eq", "value": 1});
            let refused = new(json!([ok, other])).unwrap_err();
            assert!(refused.message().contains("`where[1]`"), "{refused:?}");
        }
    }

    #[test]
    fn hidden_values_cannot_be_guessed() {
        let is_taken = |shows: bool, condition: Value| {
            let condition = serde_json::from_value(condition).unwrap();
            refuse_guesses(&Redactor::new(!shows), &[condition]).is_ok()
        };
        let like = json!({"column": "api_key", "is": "like", "value": "a%"});
        assert!(!is_taken(false, like.clone()));
        assert!(is_taken(true, like));
        for taken in [
            json!({"column": "api_key", "is": "eq", "value": "a"}),
            json!({"column": "api_key", "is": "neq"}),
            json!({"column": "city", "is": "like", "value": "a%"}),
        ] {
            assert!(is_taken(false, taken.clone()), "{taken}");
        }
    }
}
