//! Checks the answer to a question: a client may send anything, and tools rely on the schema that they
//! asked with.

use serde_json::Value;

use super::InputRequest;

impl InputRequest {
    /// Checks an `ElicitResult` against the schema of its form. Answers to other questions pass.
    ///
    /// # Errors
    /// Names the field at fault.
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

/// Checks a value against a `PrimitiveSchemaDefinition`; the error is what it must be.
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
        return Err(format!(
            "of type {}",
            schema["type"].as_str().unwrap_or_default()
        ));
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
    for (bound, is_broken) in [
        (
            least,
            schema[least].as_f64().is_some_and(|least| size < least),
        ),
        (most, schema[most].as_f64().is_some_and(|most| size > most)),
    ] {
        if is_broken {
            return Err(format!("within {bound} {}", schema[bound]));
        }
    }
    for item in array(value) {
        check(&schema["items"], item).map_err(|must| format!("items that are each {must}"))?;
    }
    Ok(())
}

/// The values that a schema allows: `enum`, or the constants of `oneOf` or `anyOf`.
fn choices(schema: &Value) -> Vec<&Value> {
    let titled = ["oneOf", "anyOf"]
        .into_iter()
        .flat_map(|of| array(&schema[of]));
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
    fn content_must_fit_the_schema() {
        let accepted = |content: Value| json!({"action": "accept", "content": content});
        check(&json!({"action": "decline"}), Ok(()));
        check(&json!({"action": "cancel", "content": 1}), Ok(()));
        check(
            &accepted(
                json!({"confirm": true, "name": "abc", "age": 150.0, "color": "red",
            "size": "s", "tags": ["a"], "other": {}}),
            ),
            Ok(()),
        );
        let action = Err("action must be accept, decline or cancel");
        check(&json!({}), action);
        check(&json!({"action": "banana"}), action);
        check(
            &json!({"action": "accept"}),
            Err("content must be an object"),
        );
        for (content, fault) in [
            (json!({}), "content.confirm is missing"),
            (
                json!({"confirm": "yes"}),
                "content.confirm must be of type boolean",
            ),
            (
                json!({"confirm": true, "name": "a"}),
                "content.name must be within minLength 2",
            ),
            (
                json!({"confirm": true, "name": "abcd"}),
                "content.name must be within maxLength 3",
            ),
            (
                json!({"confirm": true, "age": 1.5}),
                "content.age must be of type integer",
            ),
            (
                json!({"confirm": true, "age": 151}),
                "content.age must be within maximum 150",
            ),
            (
                json!({"confirm": true, "color": "green"}),
                "content.color must be one of the given choices",
            ),
            (
                json!({"confirm": true, "size": "m"}),
                "content.size must be one of the given choices",
            ),
            (
                json!({"confirm": true, "tags": ["b"]}),
                "content.tags must be items that are each one of the given choices",
            ),
            (
                json!({"confirm": true, "tags": ["a", "a"]}),
                "content.tags must be within maxItems 1",
            ),
        ] {
            check(&accepted(content), Err(fault));
        }
    }
}
