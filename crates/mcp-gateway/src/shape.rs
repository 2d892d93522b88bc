//! What arguments look like, for the record: types and sizes, never values.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
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
pub struct Shape(Box<str>);

impl Shape {
    /// The shape of a value. One that cannot be read has a shape too.
    pub fn of(value: &RawValue) -> Self {
        let text = value.get();
        let read = || {
            let mut reader = serde_json::Deserializer::from_str(text);
            Look { into: true }.deserialize(&mut reader).ok()
        };
        let shape = if text.len() > MAX_BYTES {
            format!("\"large({})\"", text.len())
        } else {
            read().unwrap_or_else(|| format!("\"unreadable({})\"", text.len()))
        };
        Self(shape.into())
    }

    /// The shape of no arguments at all.
    pub fn none() -> Self {
        Self("{}".into())
    }

    /// The shape as JSON text.
    pub fn json(&self) -> &str {
        &self.0
    }
}

/// Reads one value and returns the JSON text of its shape.
struct Look {
    /// True where the fields of an object are of interest.
    into: bool,
}

impl<'de> DeserializeSeed<'de> for Look {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<String, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Ok("\"null\"".to_owned())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<String, E> {
        Ok("\"boolean\"".to_owned())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<String, E> {
        Ok("\"number\"".to_owned())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<String, E> {
        Ok("\"number\"".to_owned())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<String, E> {
        Ok("\"number\"".to_owned())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(format!("\"string({})\"", text.len()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        let mut count = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(format!("\"array({count})\""))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<String, A::Error> {
        let (mut shape, mut shown, mut others) = (String::new(), 0, 0);
        while let Some(name) = fields.next_key::<String>()? {
            if !self.into || shown == MAX_FIELDS || !is_a_name(&name) {
                fields.next_value::<IgnoredAny>()?;
                others += 1;
                continue;
            }
            let value = fields.next_value_seed(Self { into: false })?;
            let _ = write!(shape, ",\"{name}\":{value}");
            shown += 1;
        }
        if !self.into {
            return Ok(format!("\"object({others})\""));
        }
        if others > 0 {
            let _ = write!(shape, ",\"…\":\"{others} more\"");
        }
        Ok(format!("{{{}}}", shape.trim_start_matches(',')))
    }
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
        assert_eq!(shape("1e400"), r#""unreadable(5)""#);
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
