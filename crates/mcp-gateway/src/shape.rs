//! What arguments look like, for the record: types and sizes, never values.

use std::borrow::Cow;
use std::fmt::Write as _;

use mcp_core::jsonrpc::{Members, string};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Fields of which the record speaks; the rest is counted.
const MAX_FIELDS: usize = 24;

/// Longer names are not names that a tool declares.
const MAX_NAME: usize = 40;

/// Larger arguments are not looked into: reading them again would cost more than the record is
/// worth.
const MAX_BYTES: usize = 256 * 1024;

/// The shape of a JSON value, as JSON text of at most a few kilobytes:
/// `{"workflow":"string(5)","inputs":"object(2)","wait":"boolean"}`.
///
/// Strings have their length in bytes, arrays and objects their number of items. Of an object at the
/// top the field names are kept; nothing below it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape(Cow<'static, str>);

impl Shape {
    /// The shape of a value. One that cannot be read has a shape too.
    pub(crate) fn of(value: &RawValue) -> Self {
        let json = value.get();
        let mut shape = String::with_capacity(128);
        if json.len() > MAX_BYTES {
            push_type(&mut shape, "large", Some(json.len()));
        } else if let Some(fields) = Members::read(json) {
            push_fields(&mut shape, &fields);
        } else {
            push_shape(&mut shape, json);
        }
        Self(shape.into())
    }

    /// The shape of no arguments at all.
    pub(crate) fn none() -> Self {
        Self("{}".into())
    }

    /// The shape as JSON text.
    pub(crate) fn json(&self) -> &str {
        &self.0
    }
}

fn push_fields(shape: &mut String, fields: &Members) {
    let (mut shown, mut others) = (0, 0);
    for (name, json) in fields.iter() {
        if shown == MAX_FIELDS || !is_a_name(name) {
            others += 1;
            continue;
        }
        shape.push(if shown == 0 { '{' } else { ',' });
        // Into a string nothing fails.
        let _ = write!(shape, "\"{name}\":");
        push_shape(shape, json);
        shown += 1;
    }
    if shown == 0 {
        shape.push('{');
    }
    if others > 0 {
        let comma = if shown > 0 { "," } else { "" };
        let _ = write!(shape, "{comma}\"…\":\"{others} more\"");
    }
    shape.push('}');
}

/// Adds the type and the size of a value, whose first byte says what it is.
fn push_shape(shape: &mut String, json: &str) {
    let (name, size) = match json.as_bytes().first() {
        Some(b'"') => ("string", string(json).map(|text| text.len())),
        Some(b'{') => {
            let members = Members::read(json);
            ("object", members.map(|members| members.iter().count()))
        }
        Some(b'[') => {
            // Nothing of it is kept.
            let items: Result<Vec<IgnoredAny>, _> = serde_json::from_str(json);
            ("array", items.ok().map(|items| items.len()))
        }
        Some(b't' | b'f') => ("boolean", None),
        Some(b'n') => ("null", None),
        _ => ("number", None),
    };
    push_type(shape, name, size);
}

fn push_type(shape: &mut String, name: &str, size: Option<usize>) {
    let _ = match size {
        Some(size) => write!(shape, "\"{name}({size})\""),
        None => write!(shape, "\"{name}\""),
    };
}

/// Others may be anything, values by mistake included.
fn is_a_name(text: &str) -> bool {
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$');
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(json: &str) -> String {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        Shape::of(&raw).json().to_owned()
    }

    #[test]
    fn types_and_sizes_are_kept_and_nothing_else() {
        let json = r#"{"workflow":"s3cr\u00e9t","inputs":{"token":"s3cret","n":[1]},"wait":true,
            "limit":12345678901234567890123,"items":["s3cret",2],"none":null,"s3 cret":1}"#;
        assert_eq!(
            shape(json),
            r#"{"workflow":"string(7)","inputs":"object(2)","wait":"boolean","limit":"number","items":"array(2)","none":"null","…":"1 more"}"#
        );
        assert_eq!(shape("{}"), Shape::none().json());
        assert_eq!(shape(r#"["s3cret"]"#), r#""array(1)""#);
        assert_eq!(shape(r#""s3cret""#), r#""string(6)""#);
        assert_eq!(shape("1e400"), r#""number""#);
    }

    #[test]
    fn it_is_small_whatever_the_value() {
        let fields: Vec<String> = (0..1000).map(|n| format!("\"field{n}\":{n}")).collect();
        let wide = shape(&format!("{{{}}}", fields.join(",")));
        assert!(
            wide.ends_with(r#""field23":"number","…":"976 more"}"#),
            "{wide}"
        );
        assert_eq!(
            shape(&format!("\"{}\"", "x".repeat(MAX_BYTES))),
            r#""large(262146)""#
        );
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert_eq!(shape(&deep), r#""array(1)""#);
        let longest = format!("{{\"{}\":1}}", "x".repeat(MAX_NAME + 1));
        assert_eq!(shape(&longest), r#"{"…":"1 more"}"#);
    }
}
