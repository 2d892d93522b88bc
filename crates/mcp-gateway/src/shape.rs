//! What arguments look like, for the record: types and sizes, never values.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::Deserialize;
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
pub struct Shape(Cow<'static, str>);

impl Shape {
    /// The shape of a value. One that cannot be read has a shape too.
    pub fn of(value: &RawValue) -> Self {
        let text = value.get();
        if text.len() > MAX_BYTES {
            return Self(format!("\"large({})\"", text.len()).into());
        }
        let mut shape = String::with_capacity(128);
        let look = Look {
            into: true,
            shape: &mut shape,
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        if look.deserialize(&mut reader).is_err() {
            shape = format!("\"unreadable({})\"", text.len());
        }
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

/// Reads one value and writes the JSON text of its shape.
struct Look<'a> {
    /// True where the fields of an object are of interest.
    into: bool,
    shape: &'a mut String,
}

impl Look<'_> {
    fn write(&mut self, shape: fmt::Arguments<'_>) {
        // Into a string nothing fails.
        let _ = self.shape.write_fmt(shape);
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.shape.push_str("\"null\"");
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.shape.push_str("\"boolean\"");
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.shape.push_str("\"number\"");
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.visit_i64(0)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.visit_i64(0)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.write(format_args!("\"string({})\"", text.len()));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut count = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        self.write(format_args!("\"array({count})\""));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let (mut shown, mut others) = (0, 0);
        if self.into {
            self.shape.push('{');
        }
        while let Some(name) = fields.next_key::<Name<'de>>()? {
            if !self.into || shown == MAX_FIELDS || !is_a_name(&name.0) {
                fields.next_value::<IgnoredAny>()?;
                others += 1;
                continue;
            }
            let comma = if shown > 0 { "," } else { "" };
            self.write(format_args!("{comma}\"{}\":", name.0));
            fields.next_value_seed(Look {
                into: false,
                shape: self.shape,
            })?;
            shown += 1;
        }
        match (self.into, others) {
            (false, _) => self.write(format_args!("\"object({others})\"")),
            (true, 0) => self.shape.push('}'),
            (true, _) => {
                let comma = if shown > 0 { "," } else { "" };
                self.write(format_args!("{comma}\"…\":\"{others} more\"}}"));
            }
        }
        Ok(())
    }
}

/// The name of a field; copied only where it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

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
