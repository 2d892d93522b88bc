//! Conditions that select rows of a data table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

/// One condition on a row.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// Its name.
    column: String,
    /// Comparison with the value; like and ilike take % for any text.
    is: Is,
    /// Without it: null.
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
pub(super) fn all(conditions: &[Condition]) -> Value {
    let filter = |one: &Condition| json!({"columnName": one.column, "condition": one.is, "value": one.value});
    let filters: Vec<Value> = conditions.iter().map(filter).collect();
    json!({"type": "and", "filters": filters})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_compares_with_a_single_value() {
        for (value, expected) in [
            (r#","value":"a""#, json!("a")),
            (r#","value":1.5"#, json!(1.5)),
            (r#","value":false"#, json!(false)),
            (r#","value":null"#, json!(null)),
            ("", json!(null)),
        ] {
            let text = format!(r#"{{"column":"c","is":"eq"{value}}}"#);
            let filter = all(&[serde_json::from_str(&text).unwrap()]);
            assert_eq!(
                filter["filters"],
                json!([{"columnName": "c", "condition": "eq", "value": expected}])
            );
        }
        let list = r#"{"column":"c","is":"eq","value":[1]}"#;
        assert!(serde_json::from_str::<Condition>(list).is_err());
    }
}
