//! Assertions on JSON.

use serde_json::Value;

/// Asserts that the object `found` has these members with these values, beside others.
#[track_caller]
pub(crate) fn assert_has(found: &Value, expected: Value) {
    for (name, value) in expected.as_object().expect("an object of members") {
        assert_eq!(found.get(name), Some(value), "{name} of {found}");
    }
}
