//! JSON Schemas that real hosts accept, and integers with enforced bounds.
//!
//! `schemars` describes Rust exactly, but hosts support less. VS Code needs `items` on arrays, Gemini
//! fails on type arrays, Anthropic's API refuses combinators at the top, strict modes require
//! `properties`. `input` and `output` simplify the schemas of all tools. Only a schema that is
//! written by hand and names its dialect with `$schema` is published unchanged.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, json};

/// An integer from `LOW` to `HIGH`, in the schema and when it is parsed. A minimum of 0 is left out of the schema.
///
/// Other values are errors; they are not clamped, so that the model learns the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Bounded<const LOW: u32, const HIGH: u32>(u32);

impl<const LOW: u32, const HIGH: u32> Bounded<LOW, HIGH> {
    /// Returns `None` outside of the bounds.
    pub fn new(value: u32) -> Option<Self> {
        (LOW..=HIGH).contains(&value).then_some(Self(value))
    }

    /// The value.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl<'de, const LOW: u32, const HIGH: u32> Deserialize<'de> for Bounded<LOW, HIGH> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Within<const LOW: u32, const HIGH: u32>;
        impl<const LOW: u32, const HIGH: u32> de::Visitor<'_> for Within<LOW, HIGH> {
            type Value = Bounded<LOW, HIGH>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an integer from {LOW} to {HIGH}")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                let bounded = u32::try_from(value).ok().and_then(Bounded::new);
                bounded.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }
        }
        deserializer.deserialize_u32(Within)
    }
}

impl<const LOW: u32, const HIGH: u32> JsonSchema for Bounded<LOW, HIGH> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("From{LOW}To{HIGH}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": LOW, "maximum": HIGH})
    }
}

/// The description and the input schema of a tool's arguments.
pub(super) fn input<T: JsonSchema>() -> (String, Value) {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12());
    let description = match schema.remove("description") {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    // A struct without fields has none, but strict modes require the key.
    let properties = schema.entry("properties");
    properties.or_insert_with(|| Value::Object(Map::new()));
    (description, Value::Object(schema))
}

/// The same for an item that must have a description.
///
/// # Panics
/// If `T` has no doc comment; the first test finds that.
pub(crate) fn documented<T: JsonSchema>(noun: &str, name: &str) -> (String, Value) {
    let (description, schema) = input::<T>();
    assert!(!description.is_empty(), "{noun} {name} has no doc comment");
    (description, schema)
}

/// The output schema of a tool's result.
pub(super) fn output<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
    schema.remove("description");
    Value::Object(schema)
}

fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> Map<String, Value> {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    if schema.get("title").and_then(Value::as_str) == Some(&*T::schema_name()) {
        schema.remove("title");
    }
    // Derived schemas name no dialect. A schema by hand that names one is meant exactly so.
    let schema = match schema.get("$schema") {
        Some(_) => schema.to_value(),
        None => simplified(schema.to_value()),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// The schema without keywords that hosts do not support or that only cost tokens.
fn simplified(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        // `true` allows anything; some validators know only the object form.
        return Value::Object(Map::new());
    };
    schema.remove("title");
    schema.remove("format");
    // An empty default is the same as none. schemars writes a minimum of 0 for each unsigned number; it is left out.
    let is_empty =
        |value: &Value| [json!(null), json!([]), json!({}), json!(false)].contains(value);
    if schema.get("default").is_some_and(is_empty) {
        schema.remove("default");
    }
    if schema.get("minimum").is_some_and(|minimum| *minimum == 0) {
        schema.remove("minimum");
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(true)) {
        schema.remove("additionalProperties");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let mut schema = without_null(schema);
    constants_to_enum(&mut schema);
    for (key, value) in &mut schema {
        let simplify = |inner: &mut Value| *inner = simplified(inner.take());
        match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(all)) => all.values_mut().for_each(simplify),
            ("anyOf" | "oneOf" | "allOf", Value::Array(all)) => all.iter_mut().for_each(simplify),
            ("items", items) => simplify(items),
            ("additionalProperties", other @ Value::Object(_)) => simplify(other),
            _ => {}
        }
    }
    Value::Object(schema)
}

/// Removes `null` from types: schemars writes an optional field as `T | null`, but an argument is
/// already optional if it is not `required`, and outputs omit what is `None`.
fn without_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(members)) = schema.get_mut("anyOf") {
        members.retain(|member| member.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = members.as_mut_slice() {
            let only = std::mem::take(only);
            schema.remove("anyOf");
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
    schema
}

/// Turns `oneOf` of constants, which schemars makes of an enum with doc comments, into `enum`.
fn constants_to_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(members)) = schema.get("oneOf") else {
        return;
    };
    let constants = members.iter().map(|member| member.get("const").cloned());
    if let Some(constants) = constants.collect::<Option<Vec<Value>>>() {
        schema.remove("oneOf");
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), constants.into());
    }
}

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
        let text = String::deserialize(deserializer)?;
        match is_longer(&text, MAX_CHARS) {
            true => Err(de::Error::custom(too_long(MAX_CHARS))),
            false => Ok(Self(text)),
        }
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

    struct ByHand;

    impl JsonSchema for ByHand {
        fn schema_name() -> Cow<'static, str> {
            "ByHand".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "description": "Written by hand.",
                "type": "object",
                "properties": {"at": {"type": ["string", "null"], "format": "date-time"}},
                "anyOf": [{"required": ["at"]}],
            })
        }
    }

    #[test]
    fn schema_by_hand_is_published_unchanged() {
        let (description, schema) = input::<ByHand>();
        assert_eq!(description, "Written by hand.");
        let mut expected = ByHand::json_schema(&mut SchemaGenerator::default());
        expected.remove("description");
        assert_eq!(schema, expected.to_value());
    }

    #[test]
    fn bound_is_enforced() {
        let parse = |text| serde_json::from_str::<Bounded<1, 3>>(text);
        assert_eq!(parse("3").unwrap().get(), 3);
        assert_eq!(
            parse("4").unwrap_err().to_string(),
            "invalid value: integer `4`, expected an integer from 1 to 3 at line 1 column 1"
        );
        assert!(parse("0").is_err() && parse("-1").is_err() && parse("1.5").is_err());
    }

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
