//! Derives the JSON Schema of a trigger's parameters.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{FormField, FormFieldKind, Trigger, TriggerKind};
use crate::expressions::visit_texts;
use crate::workflow::Node;

/// Parameters that are taken from expressions.
const MAX_FOUND: usize = 30;

/// A field with more options is described without them.
const MAX_OPTIONS: usize = 50;

/// `body.x`, `query?.x`, `body["x"]`: an expression that reads a parameter of a webhook's request.
static READ_PARAMETER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern =
        r#"\b(?:body|query)\??(?:\.([A-Za-z_]\w*)|(?:\?\.)?\[\s*["']([^"']{1,64})["']\s*\])"#;
    // Covered by test `the_pattern_compiles`.
    Regex::new(pattern).ok()
});

/// Members of arrays and texts, which belong to the body itself and are no parameters.
const BUILTIN_MEMBERS: [&str; 8] = [
    "length",
    "map",
    "filter",
    "toString",
    "toJsonString",
    "isEmpty",
    "keys",
    "split",
];

/// The first block of code in a note, if it is a JSON Schema of an object.
pub fn parameters_in_note(note: &str) -> Option<Value> {
    let code = note.split("```").nth(1)?;
    let start = code.find('{')?;
    let schema: Value = serde_json::from_str(code[start..].trim()).ok()?;
    let is_object = schema["type"] == "object" && schema["properties"].is_object();
    is_object.then_some(schema)
}

/// A note without its code and the marks of its headings.
pub fn without_code(note: &str) -> String {
    let prose = note.split("```").step_by(2);
    let lines = prose.flat_map(str::lines);
    let lines = lines.map(|line| line.trim().trim_start_matches('#').trim());
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Description of the parameters of a form whose fields are not known before the run.
pub const COMPUTED_FIELDS: &str = "An expression computes the fields of this form: pass them as \
    `field-0`, `field-1` and so on, in their order.";

/// The schema of the values for the fields of a form.
pub fn schema_of_fields(fields: &[FormField]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        properties.insert(field.name.clone(), schema_of_field(&field.kind));
        required.extend(field.required.then(|| field.name.clone()));
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// The schema, from the trigger itself and from the expressions of the other nodes.
pub fn parameters_of(trigger: &Trigger<'_>) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<String> = Vec::new();
    match trigger.kind {
        TriggerKind::Form => match trigger.fields() {
            Some(fields) => return schema_of_fields(&fields),
            None => {
                return json!({"type": "object", "properties": {}, "description": COMPUTED_FIELDS});
            }
        },
        TriggerKind::Chat => {
            let property = json!({"type": "string", "description": "The message."});
            properties.insert("chatInput".into(), property);
            required.push("chatInput".into());
        }
        TriggerKind::Webhook => {
            let path = trigger.webhook().map(|webhook| webhook.path);
            for segment in path.iter().flatten() {
                if let Some(name) = segment.strip_prefix(':') {
                    let property = json!({"type": "string", "description": "Part of the path."});
                    properties.insert(name.to_owned(), property);
                    required.push(name.to_owned());
                }
            }
            for name in read_by(trigger.workflow.live_nodes()) {
                properties
                    .entry(name)
                    .or_insert_with(|| json!({"type": "string"}));
            }
        }
        TriggerKind::SubWorkflow => {
            for (name, kind) in trigger.inputs() {
                let property = match kind {
                    "" => json!({}),
                    "array" => json!({"type": "array", "items": {}}),
                    kind => json!({ "type": kind }),
                };
                properties.insert(name, property);
            }
        }
        TriggerKind::Schedule | TriggerKind::Manual | TriggerKind::Event => {}
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn schema_of_field(kind: &FormFieldKind) -> Value {
    match kind {
        FormFieldKind::Text => json!({"type": "string"}),
        FormFieldKind::Number => json!({"type": "number"}),
        FormFieldKind::Date => json!({"type": "string", "format": "date"}),
        FormFieldKind::Email => json!({"type": "string", "format": "email"}),
        FormFieldKind::Choice(options) | FormFieldKind::Radio(options) => one_of(options),
        FormFieldKind::Choices(options) => json!({"type": "array", "items": one_of(options)}),
        FormFieldKind::File { several: false } => file(),
        FormFieldKind::File { several: true } => json!({"type": "array", "items": file()}),
    }
}

fn one_of(options: &[String]) -> Value {
    if options.is_empty() || options.len() > MAX_OPTIONS {
        json!({"type": "string"})
    } else {
        json!({"type": "string", "enum": options})
    }
}

fn file() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object", "description": "A file: `text` or `base64`.",
        "properties": {"name": text, "type": text, "text": text, "base64": text},
    })
}

/// The parameters that expressions and code of the nodes read, in order.
fn read_by(nodes: &[Node]) -> Vec<String> {
    let mut names = Vec::new();
    let Some(pattern) = READ_PARAMETER.as_ref() else {
        return names;
    };
    for value in nodes.iter().flat_map(|node| node.parameters.values()) {
        visit_texts(value, "", &mut |_, text| {
            for found in pattern.captures_iter(text) {
                let name = found.get(1).or(found.get(2));
                let name = name.map_or("", |name| name.as_str());
                let is_new = !names.iter().any(|other| other == name);
                if is_new && !BUILTIN_MEMBERS.contains(&name) && names.len() < MAX_FOUND {
                    names.push(name.to_owned());
                }
            }
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_compiles() {
        assert!(READ_PARAMETER.is_some());
    }

    #[test]
    fn only_a_schema_of_an_object_is_used() {
        assert!(parameters_in_note("```\n{\"a\": 1}\n```").is_none());
        assert!(parameters_in_note("no code").is_none());
        let schema = "```json\n{\"type\": \"object\", \"properties\": {}}\n```";
        assert!(parameters_in_note(schema).is_some());
    }
}
