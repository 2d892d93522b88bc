//! Names of enum variants, as serde writes them.

use serde::Serialize;
use serde_json::Value;

/// The name of a variant without content; empty for anything else.
pub(crate) fn variant_name(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
