//! Generators of JSON text with any white space, any escapes and numbers of any length.

use proptest::collection::vec;
use proptest::prelude::*;

pub(super) fn space() -> impl Strategy<Value = String> + Clone {
    "[ \t\n\r]{0,2}"
}

/// A JSON string: as serde writes it, or with many escapes.
pub(super) fn string() -> BoxedStrategy<String> {
    let written = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
    let escaped = r#""(\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|[ !#-\[\]-~]|ä|世|🦀){0,12}""#;
    prop_oneof![written, escaped].boxed()
}

/// An id: a string or an integer.
pub(super) fn id() -> BoxedStrategy<String> {
    prop_oneof![string(), "-?(0|[1-9][0-9]{0,40})"].boxed()
}

/// A value of any kind.
pub(super) fn value() -> BoxedStrategy<String> {
    let number = r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?";
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        number,
        string(),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let item = (space(), inner.clone(), space())
            .prop_map(|(before, value, after)| format!("{before}{value}{after}"));
        let member = (space(), string(), space(), item.clone())
            .prop_map(|(before, key, after, value)| format!("{before}{key}{after}:{value}"));
        prop_oneof![
            vec(item, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
    .boxed()
}

/// An object or array, as `params` must be.
pub(super) fn structure() -> BoxedStrategy<String> {
    value()
        .prop_map(|value| match value.as_bytes().first() {
            Some(b'{' | b'[') => value,
            _ => format!("[{value}]"),
        })
        .boxed()
}
