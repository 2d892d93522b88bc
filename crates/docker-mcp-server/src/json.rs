//! Parts of JSON whose form is not known: what is missing or of another type is empty.

use serde_json::{Map, Value};

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The texts of a list.
pub(crate) fn texts(value: &Value) -> impl Iterator<Item = &str> {
    items(value).filter_map(Value::as_str)
}

/// The members of an object.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The members of the object that `value` has as this member, to be changed.
pub(crate) fn members_of_mut<'a>(
    value: &'a mut Value,
    member: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let object = value.get_mut(member).and_then(Value::as_object_mut);
    object.into_iter().flatten()
}

/// Returns the members of an object.
pub(crate) fn into_members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
