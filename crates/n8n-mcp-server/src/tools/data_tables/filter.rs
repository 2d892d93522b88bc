//! Which rows are meant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One condition on a row.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    column: String,
    is: Is,
    /// A text, a number, true or false, or null.
    value: Value,
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

/// All of them, as n8n writes it.
pub(super) fn all(conditions: &[Condition]) -> Value {
    let filters: Vec<Value> = conditions
        .iter()
        .map(|one| json!({"columnName": one.column, "condition": one.is, "value": one.value}))
        .collect();
    json!({"type": "and", "filters": filters})
}
