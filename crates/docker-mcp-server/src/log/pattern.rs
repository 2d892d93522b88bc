//! Which lines are wanted.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// Most memory that a compiled expression may take, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// A regular expression. Matching takes linear time, whatever it says.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Whether it is found in `line`.
    pub(crate) fn is_match(&self, line: &str) -> bool {
        self.0.is_match(line)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let built = RegexBuilder::new(&text)
            .case_insensitive(true)
            .size_limit(SIZE_LIMIT)
            .build();
        built.map(Self).map_err(|_| {
            de::Error::custom("not a regular expression (escape . * + ? ( ) [ ] { } | ^ $ with \\)")
        })
    }
}

impl JsonSchema for Pattern {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}
