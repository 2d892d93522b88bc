//! Checks answers to questions: clients may send anything, but tools rely on the schema of their form.

use serde_json::Value;

use super::InputRequest;

impl InputRequest {
    /// Checks an `ElicitResult` against the schema of its form. Answers to other questions pass.
    ///
    /// # Errors
    /// The invalid field, with what it must be.
    pub fn check_answer(&self, answer: &Value) -> Result<(), String> {
        if self.method() != "elicitation/create" {
            return Ok(());
        }
        match answer["action"].as_str() {
            Some("decline" | "cancel") => return Ok(()),
            Some("accept") => {}
            _ => return Err("action must be accept, decline or cancel".to_owned()),
        }
        let Some(schema) = self.requested_schema() else {
            return Ok(());
        };
        let Some(content) = answer["content"].as_object() else {
            return Err("content must be an object".to_owned());
        };
        for name in array(&schema["required"]).iter().filter_map(Value::as_str) {
            if !content.contains_key(name) {
                return Err(format!("content.{name} is missing"));
            }
        }
        for (name, value) in content {
            check(&schema["properties"][name], value)
                .map_err(|must| format!("content.{name} must be {must}"))?;
        }
        Ok(())
    }
}

/// Checks a value against a `PrimitiveSchemaDefinition`; the error says what it must be.
fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let is_type = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("array") => value.is_array(),
        _ => true,
    };
    if !is_type {
        let kind = schema["type"].as_str().unwrap_or_default();
        return Err(format!("of type {kind}"));
    }
    let choices = choices(schema);
    if !choices.is_empty() && !choices.contains(&value) {
        return Err("one of the given choices".to_owned());
    }
    let (size, least, most) = match value {
        Value::String(text) => (text.chars().count() as f64, "minLength", "maxLength"),
        Value::Array(items) => (items.len() as f64, "minItems", "maxItems"),
        Value::Number(number) => (number.as_f64().unwrap_or_default(), "minimum", "maximum"),
        _ => return Ok(()),
    };
    let bound = |name: &str| schema[name].as_f64();
    let is_less = bound(least).is_some_and(|least| size < least);
    let is_more = bound(most).is_some_and(|most| size > most);
    if is_less || is_more {
        let broken = if is_less { least } else { most };
        return Err(format!("within {broken} {}", schema[broken]));
    }
    for item in array(value) {
        check(&schema["items"], item).map_err(|must| format!("items that are each {must}"))?;
    }
    Ok(())
}

/// The values that a schema allows: `enum`, or the constants of `oneOf` or `anyOf`.
fn choices(schema: &Value) -> Vec<&Value> {
    let titled = ["oneOf", "anyOf"].into_iter();
    let titled = titled.flat_map(|of| array(&schema[of]));
    let constants = titled.filter_map(|choice| choice.get("const"));
    array(&schema["enum"]).iter().chain(constants).collect()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(answer: &Value, expected: Result<(), &str>) {
        let schema = json!({
            "type": "object",
            "properties": {
                "confirm": {"type": "boolean"},
                "name": {"type": "string", "minLength": 2, "maxLength": 3},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "color": {"type": "string", "enum": ["red", "blue"]},
                "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
                "tags": {"type": "array", "maxItems": 1, "items": {"anyOf": [{"const": "a"}]}},
            },
            "required": ["confirm"],
        });
        let found = InputRequest::elicit("?", schema).check_answer(answer);
        assert_eq!(found, expected.map_err(ToOwned::to_owned), "{answer}");
    }

    #[test]
    fn content_must_match_the_schema() {
        let accept = |content: Value| json!({"action": "accept", "content": content});
        let with = |field: &str, value: Value| accept(json!({"confirm": true, field: value}));
        check(&json!({"action": "decline"}), Ok(()));
        check(&json!({"action": "cancel", "content": 1}), Ok(()));
        let mut all = with("name", json!("abc"));
        for (field, value) in [
            ("age", json!(150.0)),
            ("color", json!("red")),
            ("size", json!("s")),
            ("tags", json!(["a"])),
            ("other", json!({})),
        ] {
            all["content"][field] = value;
        }
        check(&all, Ok(()));
        let action = Err("action must be accept, decline or cancel");
        check(&json!({}), action);
        check(&json!({"action": "banana"}), action);
        check(
            &json!({"action": "accept"}),
            Err("content must be an object"),
        );
        check(&accept(json!({})), Err("content.confirm is missing"));
        for (field, value, fault) in [
            ("confirm", json!("yes"), "of type boolean"),
            ("name", json!("a"), "within minLength 2"),
            ("name", json!("abcd"), "within maxLength 3"),
            ("age", json!(1.5), "of type integer"),
            ("age", json!(151), "within maximum 150"),
            ("color", json!("green"), "one of the given choices"),
            ("size", json!("m"), "one of the given choices"),
            (
                "tags",
                json!(["b"]),
                "items that are each one of the given choices",
            ),
            ("tags", json!(["a", "a"]), "within maxItems 1"),
        ] {
            let fault = format!("content.{field} must be {fault}");
            check(&with(field, value), Err(&fault));
        }
    }
}
