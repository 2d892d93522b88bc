//! JSON Schemas that real hosts accept, and bounds that are enforced.
//!
//! `schemars` describes Rust faithfully; hosts want less. VS Code needs `items` on arrays, Gemini
//! dies on type arrays, Anthropic's API refuses combinators at the top, strict modes demand
//! `properties`. `input` and `output` clean up once, for every tool; only a schema that is
//! written by hand and says so with `$schema` is published as it is.

use std::borrow::Cow;
use std::fmt;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

/// An integer from `MIN` to `MAX`: the bound in the schema and the check come from one place.
///
/// A value outside is refused, not clamped, so that the model learns what the bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Bounded<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Bounded<MIN, MAX> {
    /// `None` outside of the bounds.
    pub fn new(value: u32) -> Option<Self> {
        (MIN..=MAX).contains(&value).then_some(Self(value))
    }

    /// The value.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Within<const MIN: u32, const MAX: u32>;
        impl<const MIN: u32, const MAX: u32> de::Visitor<'_> for Within<MIN, MAX> {
            type Value = Bounded<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an integer from {MIN} to {MAX}")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                let bounded = u32::try_from(value).ok().and_then(Bounded::new);
                bounded.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }
        }
        deserializer.deserialize_u32(Within)
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Bounded<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("From{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

/// Description and input schema of a tool's arguments.
fn input<T: JsonSchema>() -> (String, Value) {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12());
    let description = match schema.remove("description") {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    // A struct without fields has none; strict modes demand the key.
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    (description, Value::Object(schema))
}

/// The same for an item that must have a description.
///
/// # Panics
/// When `T` has no doc comment: found by the first test.
pub(crate) fn documented<T: JsonSchema>(noun: &str, name: &str) -> (String, Value) {
    let (description, schema) = input::<T>();
    assert!(!description.is_empty(), "{noun} {name} has no doc comment");
    (description, schema)
}

/// Output schema of a tool's result.
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
    // Derived schemas name no dialect. Who writes one by hand and names it means every word.
    let schema = if schema.get("$schema").is_some() {
        schema.to_value()
    } else {
        clean(schema.to_value())
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// Takes out what hosts stumble over or what only costs tokens.
fn clean(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        // `true` allows anything; some validators know only the object form.
        return Value::Object(Map::new());
    };
    schema.remove("title");
    schema.remove("format");
    // "Absent" says as much as an empty default does.
    if schema
        .get("default")
        .is_some_and(|default| default.is_null() || *default == serde_json::json!([]))
    {
        schema.remove("default");
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(true)) {
        schema.remove("additionalProperties");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let mut schema = without_null(schema);
    constants_to_enum(&mut schema);
    for key in ["properties", "$defs"] {
        if let Some(Value::Object(members)) = schema.get_mut(key) {
            members
                .values_mut()
                .for_each(|member| *member = clean(member.take()));
        }
    }
    if let Some(items) = schema.get_mut("items") {
        *items = clean(items.take());
    }
    if let Some(additional @ Value::Object(_)) = schema.get_mut("additionalProperties") {
        *additional = clean(additional.take());
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(members)) = schema.get_mut(key) {
            members
                .iter_mut()
                .for_each(|member| *member = clean(member.take()));
        }
    }
    Value::Object(schema)
}

/// `T | null` is how schemars writes an optional field. Absence says the same: arguments are
/// optional by not being `required`, outputs skip what is `None`.
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

/// An enum whose variants have doc comments becomes `oneOf` of constants; hosts want `enum`.
fn constants_to_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(members)) = schema.get("oneOf") else {
        return;
    };
    let constants: Option<Vec<Value>> = members
        .iter()
        .map(|member| member.get("const").cloned())
        .collect();
    if let Some(constants) = constants {
        schema.remove("oneOf");
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), constants.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Lists
    /// things.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct List {
        /// Only these.
        #[serde(default)]
        tags: Vec<String>,
        /// On or off.
        active: Option<bool>,
        /// How many.
        limit: Option<Bounded<1, 250>>,
        order: Option<Order>,
        side: Option<Side>,
        /// Anything.
        input: Option<Map<String, Value>>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        /// First to last.
        Up,
        /// Last to first.
        Down,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Side {
        Left,
        Right,
    }

    #[test]
    fn schemas_are_plain() {
        let (description, schema) = input::<List>();
        assert_eq!(description, "Lists things.");
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "tags": {"type": "array", "items": {"type": "string"}, "description": "Only these."},
                    "active": {"type": "boolean", "description": "On or off."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 250, "description": "How many."},
                    "order": {"type": "string", "enum": ["up", "down"]},
                    "side": {"type": "string", "enum": ["left", "right"]},
                    "input": {"type": "object", "description": "Anything."},
                }
            })
        );
    }

    struct ByHand;

    impl JsonSchema for ByHand {
        fn schema_name() -> Cow<'static, str> {
            "ByHand".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "description": "All of it is meant.",
                "type": "object",
                "properties": {"at": {"type": ["string", "null"], "format": "date-time"}},
                "anyOf": [{"required": ["at"]}],
            })
        }
    }

    #[test]
    fn a_schema_by_hand_is_published_as_it_is() {
        let (description, schema) = input::<ByHand>();
        assert_eq!(description, "All of it is meant.");
        assert_eq!(
            schema,
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"at": {"type": ["string", "null"], "format": "date-time"}},
                "anyOf": [{"required": ["at"]}],
            })
        );
    }

    #[test]
    fn a_bound_is_enforced() {
        let parse = |text| serde_json::from_str::<Bounded<1, 3>>(text);
        assert_eq!(parse("3").unwrap().get(), 3);
        assert_eq!(
            parse("4").unwrap_err().to_string(),
            "invalid value: integer `4`, expected an integer from 1 to 3 at line 1 column 1"
        );
        assert!(parse("0").is_err() && parse("-1").is_err() && parse("1.5").is_err());
    }
}
