//! The toolset `data_tables`: n8n's own tables of rows.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Number;
use upstream::http::Request;
use upstream::redact::Redactor;
use upstream::time::{Timestamp, before, parse_timestamp};

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
        let name = table(n8n, &self.data_table_id).await?.name;
        let loss = format!("Deletes data table {name:?} ({{id}}) of n8n with all of its rows.");
        TABLES
            .delete(n8n, call, &self.data_table_id, self.confirm, &loss)
            .await
    }
}

async fn table(n8n: &N8n, id: &Id) -> Result<Table, ToolError> {
    let table = n8n.api.get(&["data-tables", id.as_str()], &[]).await;
    table.map_err(|failure| refusal(failure, TABLES.missing))
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
        let conditions = Conditions::read(n8n, &self.data_table_id, &self.r#where).await?;
        let filter = (!self.r#where.is_empty()).then(|| conditions.filter(true).to_string());
        let filter = filter.as_deref().map(|filter| ("filter", filter));
        let sort_by = self.sort_by.as_deref().map(|by| ("sortBy", by));
        let query: Vec<_> = filter.into_iter().chain(sort_by).collect();
        let path = [self.data_table_id.as_str(), "rows"];
        let mut cursor = self.cursor;
        let mut pages = 1..=MAX_EMPTY_PAGES;
        let page = loop {
            let page = TABLES.page(n8n, &path, &query, self.limit, cursor).await;
            let mut page = page.map_err(|error| match &self.sort_by {
                // n8n fails at a column that the table does not have.
                Some(by) if error.message().contains("HTTP 500") => {
                    let form = "write COLUMN:asc or COLUMN:desc with a column of the table";
                    ToolError::invalid_argument(format!("n8n cannot sort by {by:?}: {form}."))
                        .caused_by(error)
                }
                _ => error,
            })?;
            page.data.retain(|row| conditions.are_met(row));
            pages.next();
            if !page.data.is_empty() || page.rest.next_cursor.is_none() || pages.is_empty() {
                break page;
            }
            cursor = page.rest.next_cursor;
        };
        let page = page.map(|mut row: Value| {
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
        required(n8n, &self.r#where)?;
        let conditions = Conditions::read(n8n, &self.data_table_id, &self.r#where).await?;
        let new_row = self.or_insert.then(|| conditions.new_row(&self.set));
        let new_row = new_row.transpose()?;
        let send =
            async |method, action, filter: Value, data: &Map<String, Value>, is_test: bool| {
                let mut body = json!({"filter": filter, "data": data, "returnData": true});
                if is_test {
                    body["dryRun"] = true.into();
                }
                let path = ["data-tables", id, "rows", action];
                change(n8n.api.request(method, &path).body(&body), is_test).await
            };
        let update =
            async |filter, is_test| send(Method::PATCH, "update", filter, &self.set, is_test).await;
        let filter = conditions.filter(false);
        let found = update(filter.clone(), true).await?;
        let all = match conditions.have_times() {
            true => Some(update(conditions.filter(true), true).await?),
            false => None,
        };
        let ids = conditions.ids_of(&found, all.as_ref())?;
        if !ids.is_empty() {
            let (rows, shown) = (ids.len(), n8n.shown(&self.r#where));
            let loss = format!(
                "Overwrites {rows} rows of data table {id} of n8n, those with {shown}, by {}.",
                n8n.shown(&self.set)
            );
            let facts = json!((&self.r#where, &self.set, ids));
            let confirm = self.confirm.as_deref();
            call.confirm_facts(&loss, id, &facts, confirm).await?;
            return Ok(changed(&update(filter, false).await?));
        }
        let added = match new_row {
            Some(row) => send(Method::POST, "upsert", filter, &row, false).await?,
            None => json!([]),
        };
        Ok(changed(&added))
    }
}

/// Sends a change of rows, or a test of one, and returns the rows.
async fn change(request: Request, is_test: bool) -> Result<Value, ToolError> {
    request.json().await.map_err(|failure| {
        let failure = if is_test {
            failure.without_effect()
        } else {
            failure
        };
        refusal(failure, TABLES.missing)
    })
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
        required(n8n, &self.r#where)?;
        let conditions = Conditions::read(n8n, &self.data_table_id, &self.r#where).await?;
        let delete = async |filter: Value, dry_run| {
            let filter = filter.to_string();
            let query = [
                ("filter", filter.as_str()),
                ("returnData", "true"),
                ("dryRun", dry_run),
            ];
            let request = n8n.api.request(Method::DELETE, &path).query(&query);
            change(request, dry_run == "true").await
        };
        // The number of rows is important for the user's decision.
        let found = delete(conditions.filter(false), "true").await?;
        let all = match conditions.have_times() {
            true => Some(delete(conditions.filter(true), "true").await?),
            false => None,
        };
        let ids = conditions.ids_of(&found, all.as_ref())?;
        let (rows, shown) = (ids.len(), n8n.shown(&self.r#where));
        let loss = format!("Deletes {rows} rows of data table {id} of n8n: those with {shown}.");
        let facts = json!((&self.r#where, ids));
        let confirm = self.confirm.as_deref();
        call.confirm_facts(&loss, id, &facts, confirm).await?;
        Ok(changed(&delete(conditions.filter(false), "false").await?))
    }
}

/// Rejects an empty list of conditions, which would select every row, and a hidden value, which would select others.
fn required(n8n: &N8n, conditions: &[Condition]) -> Result<(), ToolError> {
    refuse_placeholder("where", &conditions)?;
    refuse_guesses(&n8n.redactor(), conditions)?;
    if conditions.is_empty() {
        return Err(ToolError::invalid_argument(
            "`where` is empty: pass at least one condition.",
        ));
    }
    Ok(())
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
    let ids = answer.is_array().then(|| ids_of(answer, |_| true));
    ChangedRows {
        rows: ids.map_or(1, |ids| ids.len()),
        ids: Vec::new(),
    }
}

/// The ids of these rows in n8n's answer.
fn ids_of(answer: &Value, is_meant: impl Fn(&Value) -> bool) -> BTreeSet<u64> {
    // A dry run returns each row twice: as it is, and, without an id, as it would be.
    let rows = answer.as_array().into_iter().flatten();
    let rows = rows.filter(|row| is_meant(row));
    rows.filter_map(|row| row.get("id").unwrap_or(row).as_u64())
        .collect()
}

/// One condition on a row.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// The column has this name.
    column: String,
    /// The values are compared so; in that of like and ilike, % stands for any text, and one without % may be anywhere.
    is: Is,
    /// Leave it out to compare with null. A time without an offset is in UTC.
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

/// Conditions, each with the time that it compares with, if it does.
///
/// n8n writes times into SQLite as `2026-01-31 12:00` and compares them there, as texts, with `2026-01-31T00:00`: each
/// time is before all others of its day.
struct Conditions<'a>(Vec<(&'a Condition, Option<Timestamp>)>);

/// The most by which n8n's comparison of times is wrong.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Pages that are read on while no row of them meets the conditions.
const MAX_EMPTY_PAGES: u32 = 10;
/// Rows that an error names.
const MAX_NAMED: usize = 20;

/// True for a condition that every time meets, or none does, if its column is one of times.
fn is_after_or_before_a_text(one: &Condition) -> bool {
    matches!(one.value, Some(Cell::Text(_))) && !matches!(one.is, Is::Eq | Is::Like | Is::Ilike)
}

impl<'a> Conditions<'a> {
    /// Finds the conditions on columns with times.
    ///
    /// # Errors
    /// A column of times is compared with a text that is none.
    async fn read(n8n: &N8n, id: &Id, all: &'a [Condition]) -> Result<Self, ToolError> {
        let time = |one: &Condition| match (&one.value, one.is) {
            (_, Is::Like | Is::Ilike) => None,
            (Some(Cell::Text(text)), _) => parse_timestamp(text),
            _ => None,
        };
        let mut columns = Vec::new();
        let is_own = |name: &str| matches!(name, "createdAt" | "updatedAt");
        let others = all.iter().filter(|one| !is_own(&one.column));
        let others: Vec<_> = others.collect();
        if others.iter().any(|one| time(one).is_some()) {
            columns = table(n8n, id).await?.columns;
        } else if others.iter().any(|one| is_after_or_before_a_text(one)) {
            // Reading the table needs a scope of its own, without which n8n compares the text.
            columns = table(n8n, id)
                .await
                .map_or_else(|_| Vec::new(), |table| table.columns);
        }
        columns.retain(|column| column.r#type == "date");
        let is_time = |name: &str| is_own(name) || columns.iter().any(|column| column.name == name);
        for (at, one) in all.iter().enumerate() {
            if let Some(Cell::Text(text)) = &one.value
                && !matches!(one.is, Is::Like | Is::Ilike)
                && is_time(&one.column)
                && time(one).is_none()
            {
                return Err(ToolError::invalid_argument(format!(
                    "`where[{at}]`: {text:?} is no time such as 2026-01-31T12:00:00Z."
                )));
            }
        }
        let with_time = |one| (one, time(one).filter(|_| is_time(&one.column)));
        Ok(Self(all.iter().map(with_time).collect()))
    }

    /// The filter of n8n for the rows that meet all conditions; a wide one also finds others of the same day.
    fn filter(&self, is_wide: bool) -> Value {
        let mut filters = Vec::new();
        for (one, time) in &self.0 {
            let mut add = |is: Is, value: Value| {
                filters.push(json!({"columnName": one.column, "condition": is, "value": value}));
            };
            let text = |time: Timestamp| time.to_string().into();
            match (time, one.is) {
                (None, is) => add(is, json!(one.value)),
                (Some(time), Is::Eq) if is_wide => {
                    add(Is::Gte, text(before(*time, DAY)));
                    add(Is::Lte, text(*time));
                }
                (Some(time), is @ (Is::Gt | Is::Gte)) if is_wide => {
                    add(is, text(before(*time, DAY)));
                }
                (Some(time), is) => add(is, text(*time)),
            }
        }
        json!({"type": "and", "filters": filters})
    }

    /// The row that is added if none meets the conditions: one that meets them from then on.
    fn new_row(&self, set: &Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
        let mut row = Map::new();
        for (at, (one, time)) in self.0.iter().enumerate() {
            if !matches!(one.is, Is::Eq) || OWN_COLUMNS.contains(&&*one.column) {
                return Err(ToolError::invalid_argument(format!(
                    "`where[{at}]`: with `or_insert` a condition must be eq, and not on a column that n8n fills: the \
                     new row gets its value. Nothing was written."
                )));
            }
            let value = match time {
                Some(time) => Some(time.to_string().into()),
                None => one.value.as_ref().map(|value| json!(value)),
            };
            row.extend(value.map(|value| (one.column.clone(), value)));
        }
        row.extend(set.clone());
        Ok(row)
    }

    /// True if the row meets the conditions on times.
    fn are_met(&self, row: &Value) -> bool {
        self.0.iter().all(|(one, time)| {
            let Some(time) = time else { return true };
            let value = row.get(&one.column).and_then(Value::as_str);
            let order = value.and_then(parse_timestamp).map(|value| value.cmp(time));
            match (order, one.is) {
                (None, is) => matches!(is, Is::Neq),
                (Some(order), Is::Eq) => order.is_eq(),
                (Some(order), Is::Neq) => order.is_ne(),
                (Some(order), Is::Gt) => order.is_gt(),
                (Some(order), Is::Gte) => order.is_ge(),
                (Some(order), Is::Lt) => order.is_lt(),
                (Some(order), Is::Lte) => order.is_le(),
                (Some(_), Is::Like | Is::Ilike) => true,
            }
        })
    }

    fn have_times(&self) -> bool {
        self.0.iter().any(|(_, time)| time.is_some())
    }

    /// The ids of the rows that n8n would change: those that it `found` by the filter, of `all` by the wide one.
    ///
    /// # Errors
    /// If those are not the rows that meet the conditions.
    fn ids_of(&self, found: &Value, all: Option<&Value>) -> Result<BTreeSet<u64>, ToolError> {
        let found = ids_of(found, |_| true);
        let meant = all.map(|all| ids_of(all, |row| self.are_met(row)));
        let Some(meant) = meant.filter(|meant| *meant != found) else {
            return Ok(found);
        };
        let named = meant.iter().take(MAX_NAMED).map(u64::to_string);
        Err(ToolError::conflict(format!(
            "Nothing was written: n8n compares the times of one day wrongly, and would take {} rows, while {} meet the \
             conditions: {}. Choose them by `id`, or compare with the end of a day: lte or gt \
             2026-01-31T23:59:59.999Z.",
            found.len(),
            meant.len(),
            named.collect::<Vec<_>>().join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_row_meets_the_conditions() {
        let new = |conditions: Value| {
            let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
            let set = json!({"note": "new", "b": 2});
            let conditions = Conditions(conditions.iter().map(|one| (one, None)).collect());
            conditions.new_row(set.as_object().unwrap())
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
