//! A text argument with a limit of its length.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A text of at most `MAX_CHARS` characters; a longer one is refused. Its schema is that of any text: no model writes a longer
/// one, and every token of a schema costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortText<const MAX_CHARS: usize>(String);

impl<const MAX_CHARS: usize> ShortText<MAX_CHARS> {
    /// The text.
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl<const MAX_CHARS: usize> Deref for ShortText<MAX_CHARS> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const MAX_CHARS: usize> Deserialize<'de> for ShortText<MAX_CHARS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Short<const MAX_CHARS: usize>;
        impl<const MAX_CHARS: usize> de::Visitor<'_> for Short<MAX_CHARS> {
            type Value = ShortText<MAX_CHARS>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match is_longer(text, MAX_CHARS) {
                    true => Err(E::custom(too_long(MAX_CHARS))),
                    false => Ok(ShortText(text.to_owned())),
                }
            }
        }
        deserializer.deserialize_str(Short)
    }
}

impl<const MAX_CHARS: usize> JsonSchema for ShortText<MAX_CHARS> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("TextOf{MAX_CHARS}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// True if `text` has more than `max` characters.
pub(crate) fn is_longer(text: &str, max: usize) -> bool {
    text.len() > max && text.chars().nth(max).is_some()
}

/// The reason why a longer text is refused.
pub(crate) fn too_long(max: usize) -> String {
    format!("must have at most {max} characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted() {
        for (text, is_short) in [
            ("", true),
            ("äöü", true),
            ("abcd", false),
            ("😀😀😀😀", false),
        ] {
            let json = serde_json::to_string(text).unwrap();
            let read = serde_json::from_str::<ShortText<3>>(&json);
            assert_eq!(read.is_ok(), is_short, "{text}");
            if let Err(error) = read {
                let error = error.to_string();
                assert!(
                    error.starts_with("must have at most 3 characters"),
                    "{error}"
                );
            }
        }
        assert!(serde_json::from_str::<ShortText<3>>("1").is_err());
    }
}
