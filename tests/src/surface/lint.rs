//! Finds faults in tool definitions that hosts reject. One bad tool can disable all of a server's.

use serde_json::{Map, Value};

/// Cursor drops tools whose name, with the server's in front, is longer than 60.
const MAX_NAME: usize = 40;
const MAX_DESCRIPTION: usize = 400;
/// Rejected at the top of a schema by Anthropic's API, among others.
const NOT_AT_THE_TOP: [&str; 6] = ["$ref", "anyOf", "oneOf", "allOf", "not", "enum"];

/// Keywords for people, which a validator ignores.
const REMARKS: [&str; 4] = ["title", "description", "default", "examples"];

/// All faults of one tool, a line each.
pub(super) fn faults(tool: &Value) -> Vec<String> {
    let name = tool["name"].as_str().unwrap_or_default();
    let mut lint = Lint::default();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=MAX_NAME).contains(&name.len()) || !name.chars().all(legal) {
        lint.fault("name", "is not 1 to 40 letters, digits, _ or -");
    }
    let description = tool["description"].as_str().unwrap_or_default();
    if !(1..=MAX_DESCRIPTION).contains(&description.chars().count()) {
        lint.fault("description", "is not 1 to 400 characters long");
    }
    if !tool["annotations"]["readOnlyHint"].is_boolean() {
        lint.fault("annotations", "do not say whether it only reads");
    }
    lint.whole(&tool["inputSchema"], "inputSchema", true);
    if let Some(output) = tool.get("outputSchema") {
        lint.whole(output, "outputSchema", false);
    }
    let line = |fault| format!("{name}: {fault}");
    lint.faults.into_iter().map(line).collect()
}

#[derive(Default)]
struct Lint {
    faults: Vec<String>,
}

impl Lint {
    fn fault(&mut self, path: &str, what: &str) {
        self.faults.push(format!("{path} {what}"));
    }

    /// Checks the schema of all arguments or of the whole result.
    fn whole(&mut self, schema: &Value, path: &str, is_input: bool) {
        if schema["type"] != "object" || !schema["properties"].is_object() {
            self.fault(path, "is not an object with properties");
        }
        for key in NOT_AT_THE_TOP {
            if schema.get(key).is_some() {
                self.fault(path, &format!("has {key} at the top"));
            }
        }
        self.schema(schema, path, is_input);
    }

    /// Checks a schema and those inside it. Every property of an input needs a description.
    fn schema(&mut self, schema: &Value, path: &str, is_input: bool) {
        let Value::Object(schema) = schema else {
            self.fault(path, "is not an object, but a bare boolean or worse");
            return;
        };
        if schema.keys().all(|key| REMARKS.contains(&key.as_str())) {
            self.fault(path, "lets anything through");
        }
        if schema.get("type").is_some_and(|kind| !kind.is_string()) {
            self.fault(path, "has several types");
        }
        let choices = schema.get("enum").and_then(Value::as_array);
        if choices.is_some_and(|choices| !choices.iter().all(Value::is_string)) {
            self.fault(path, "offers what is not text");
        }
        if schema.contains_key("$ref") {
            self.fault(path, "refers to another place");
        }
        if schema.get("type").is_some_and(|kind| kind == "array") && !schema.contains_key("items") {
            self.fault(path, "is an array without items");
        }
        if schema.get("default").is_some_and(Value::is_null) {
            self.fault(path, "is null by default, which is no value of its type");
        }
        for (name, property) in members(schema, "properties") {
            let path = format!("{path}.{name}");
            let description = property["description"].as_str().unwrap_or_default();
            if is_input && description.is_empty() {
                self.fault(&path, "has no description");
            }
            self.schema(property, &path, is_input);
        }
        for required in items(schema, "required") {
            let name = required.as_str().unwrap_or_default();
            if schema["properties"].get(name).is_none() {
                let fault = format!("requires {required}, which it does not have");
                self.fault(path, &fault);
            }
        }
        for (name, inner) in members(schema, "$defs") {
            self.schema(inner, &format!("{path}.$defs.{name}"), is_input);
        }
        for key in ["items", "additionalProperties"] {
            let closed =
                key == "additionalProperties" && schema.get(key) == Some(&Value::Bool(false));
            if let (Some(inner), false) = (schema.get(key), closed) {
                self.schema(inner, &format!("{path}.{key}"), is_input);
            }
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for inner in items(schema, key) {
                self.schema(inner, &format!("{path}.{key}"), is_input);
            }
        }
    }
}

fn members<'a>(
    schema: &'a Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let object = schema.get(key).and_then(Value::as_object);
    object.into_iter().flatten()
}

fn items<'a>(schema: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    let array = schema.get(key).and_then(Value::as_array);
    array.into_iter().flatten()
}
