//! Questions to the client during a call: elicitation (input of the user), sampling (an answer of its
//! model), roots.
//!
//! In the legacy era the question is a request to the client and the call waits. The modern era has
//! no such requests: the call ends with the question, and the client repeats it with the answer. The
//! tool then runs from its start again, so it must not do anything before the question that must not
//! be done twice.

use serde_json::{Map, Value, json};

use super::ToolError;

/// Support of a client for kinds of questions, and for a form of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Input of the user, in a form.
    pub elicitation: bool,
    /// A visit of the user to a URL (2025-11-25, "URL Mode Elicitation").
    pub url_elicitation: bool,
    /// An answer of the client's model.
    pub sampling: bool,
    /// The folders that the client works in.
    pub roots: bool,
    /// Results without the text of their structured content.
    pub structured_only: bool,
}

impl ClientCapabilities {
    /// In `experimental`: results with `structuredContent` come without the text that says the same.
    pub const STRUCTURED_ONLY: &str = "structuredContentOnly";

    /// Parses a `ClientCapabilities` object of the specification.
    pub fn read(declared: &Value) -> Self {
        let has = |name: &str| declared.get(name).is_some_and(Value::is_object);
        let modes = declared.get("elicitation").and_then(Value::as_object);
        let has_mode = |mode| modes.is_some_and(|modes| modes.contains_key(mode));
        Self {
            // Without a mode it is the form, the only one until 2025-11-25.
            elicitation: has_mode("form") || modes.is_some_and(Map::is_empty),
            url_elicitation: has_mode("url"),
            sampling: has("sampling"),
            roots: has("roots"),
            structured_only: declared
                .get("experimental")
                .and_then(|experimental| experimental.get(Self::STRUCTURED_ONLY))
                .is_some_and(Value::is_object),
        }
    }

    /// Writes a `ClientCapabilities` object for another server. It has no
    /// [`STRUCTURED_ONLY`](Self::STRUCTURED_ONLY): only this server knows whether its client knows
    /// structured content, so it removes the text itself.
    pub fn to_json(self) -> Value {
        let one = |name: &str, has: bool| has.then(|| (name.to_owned(), json!({})));
        let modes = [
            one("form", self.elicitation),
            one("url", self.url_elicitation),
        ];
        let modes = Map::from_iter(modes.into_iter().flatten());
        let elicitation = (!modes.is_empty()).then(|| ("elicitation".to_owned(), json!(modes)));
        let all = [
            elicitation,
            one("sampling", self.sampling),
            one("roots", self.roots),
        ];
        Value::Object(all.into_iter().flatten().collect())
    }
}

/// One question to the client.
#[derive(Clone, Debug)]
pub struct InputRequest {
    method: &'static str,
    params: Value,
}

impl InputRequest {
    /// Asks the user to fill in `schema`, an object of primitive properties (`elicitation/create`).
    pub fn elicit(message: &str, schema: Value) -> Self {
        let method = "elicitation/create";
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self { method, params }
    }

    /// Asks the client's model; `params` are those of a `CreateMessageRequest`
    /// (`sampling/createMessage`).
    pub fn sample(params: Value) -> Self {
        let method = "sampling/createMessage";
        Self { method, params }
    }

    /// Asks for the folders that the client works in (`roots/list`).
    pub fn roots() -> Self {
        let (method, params) = ("roots/list", json!({}));
        Self { method, params }
    }

    /// A question of another server, unchanged; `None` if `method` is not a question to clients.
    pub fn from_backend(method: &str, params: Value) -> Option<Self> {
        let known = ["elicitation/create", "sampling/createMessage", "roots/list"];
        let method = known.into_iter().find(|known| *known == method)?;
        Some(Self { method, params })
    }

    /// The question as part of a task or a result.
    pub(crate) fn to_json(&self) -> Value {
        json!({"method": self.method, "params": self.params})
    }

    /// The method of the question.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The parameters of the question.
    pub(crate) fn params(&self) -> &Value {
        &self.params
    }

    fn capability(&self) -> &'static str {
        self.method.split('/').next().unwrap_or(self.method)
    }

    fn opens_url(&self) -> bool {
        self.params["mode"] == "url"
    }

    fn is_allowed(&self, capabilities: ClientCapabilities) -> bool {
        match self.capability() {
            "elicitation" if self.opens_url() => capabilities.url_elicitation,
            "elicitation" => capabilities.elicitation,
            "sampling" => capabilities.sampling,
            _ => capabilities.roots,
        }
    }
}

/// Returns an error if a question needs a capability that the client did not declare.
pub(super) fn check(
    capabilities: ClientCapabilities,
    requests: &[(&str, InputRequest)],
) -> Result<(), ToolError> {
    let missing: Map<String, Value> = requests
        .iter()
        .filter(|(_, request)| !request.is_allowed(capabilities))
        .map(|(_, request)| {
            let mode = match request.opens_url() {
                true => json!({"url": {}}),
                false => json!({}),
            };
            (request.capability().to_owned(), mode)
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ToolError::missing_capability(missing))
}

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
        let Some(schema) = self.params.get("requestedSchema") else {
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
            check_value(&schema["properties"][name], value)
                .map_err(|must| format!("content.{name} must be {must}"))?;
        }
        Ok(())
    }
}

/// Checks a value against a `PrimitiveSchemaDefinition`; the error says what it must be.
fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
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
        check_value(&schema["items"], item)
            .map_err(|must| format!("items that are each {must}"))?;
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
