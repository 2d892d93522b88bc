//! `PROGRAM schema`: the JSON Schema of the configuration file.

use std::process::ExitCode;

use clap::Parser;
use serde_json::{Map, Value, json};

use super::{fail, print};
use crate::config::{self, Kind, Setting};

/// Prints the JSON Schema of the configuration file, for editors.
#[derive(Parser)]
pub(super) struct Schema {}

/// Runs the command. `command` has the options of the server; `whole` adds what else its file has.
pub(super) fn run(mut command: clap::Command, whole: Option<fn(Value) -> Value>) -> ExitCode {
    // Sets the defaults.
    command.build();
    let settings = config::settings(&command);
    let table = table(&settings);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Configuration file of {}", command.get_name()),
    });
    let content = whole.map_or(table.clone(), |whole| whole(table));
    if let (Some(schema), Value::Object(content)) = (schema.as_object_mut(), content) {
        schema.extend(content);
    }
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => print(format!("{text}\n").as_bytes()),
        Err(error) => fail(command.get_name(), error),
    }
}

fn table(settings: &[Setting<'_>]) -> Value {
    let properties = settings.iter();
    let properties: Map<String, Value> = properties
        .map(|setting| (setting.key.clone(), property(setting)))
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn property(setting: &Setting<'_>) -> Value {
    let arg = setting.arg;
    let mut item = match setting.kind() {
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Integer => json!({"type": "integer", "minimum": 0}),
        Kind::Number => json!({"type": "number"}),
        Kind::Text => json!({"type": "string"}),
    };
    let values = arg.get_possible_values();
    if !values.is_empty() && setting.kind() == Kind::Text {
        let names = values.iter().map(|value| Value::from(value.get_name()));
        item["enum"] = names.collect();
    }
    let mut schema = match setting.is_list() {
        false => item,
        true => {
            json!({"anyOf": [{"type": "array", "items": item, "minItems": 1}, {"type": "string"}]})
        }
    };
    schema["description"] = json!(setting.help().unwrap_or_default());
    let default = arg.get_default_values().iter();
    let default: Vec<_> = default.map(|value| value.to_string_lossy()).collect();
    let default = default.join(",");
    let delimiter = arg.get_value_delimiter();
    schema["default"] = match setting.kind() {
        Kind::Flag => json!(false),
        // None of its own: the option is unset.
        _ if default.is_empty() => return schema,
        Kind::Integer | Kind::Number => default.parse().map_or(Value::Null, Value::Number),
        Kind::Text => match delimiter.filter(|_| setting.is_list()) {
            Some(delimiter) => json!(default.split(delimiter).collect::<Vec<_>>()),
            None => json!(default),
        },
    };
    schema
}
