//! Restores redacted values when a workflow that was shown redacted is written back.

use serde_json::{Map, Value};

use super::{Draft, name_of};

/// Puts the real values into `draft` wherever it holds what was `shown` of the `current` workflow.
pub fn restore(draft: &mut Draft, shown: &Draft, current: &Draft) {
    for node in &mut draft.nodes {
        let same = |other: &&Map<String, Value>| {
            other.get("id") == node.get("id") || name_of(other) == name_of(node)
        };
        let shown = shown.nodes.iter().find(same);
        let current = current.nodes.iter().find(same);
        if let (Some(shown), Some(current)) = (shown, current) {
            restore_members(node, shown, current);
        }
    }
}

fn restore_members(
    given: &mut Map<String, Value>,
    shown: &Map<String, Value>,
    current: &Map<String, Value>,
) {
    for (key, given) in given {
        if let (Some(shown), Some(current)) = (shown.get(key), current.get(key)) {
            restore_value(given, shown, current);
        }
    }
}

fn restore_value(given: &mut Value, shown: &Value, current: &Value) {
    if given == shown {
        given.clone_from(current);
        return;
    }
    match (given, shown, current) {
        (Value::Object(given), Value::Object(shown), Value::Object(current)) => {
            restore_members(given, shown, current);
        }
        (Value::Array(given), Value::Array(shown), Value::Array(current)) => {
            for ((given, shown), current) in given.iter_mut().zip(shown).zip(current) {
                restore_value(given, shown, current);
            }
        }
        _ => {}
    }
}
