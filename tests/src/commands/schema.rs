//! `schema`: describes every key, and judges files as the servers do.

use serde_json::{Map, Value, json};

use super::run;
use crate::committed::{check, root};
use crate::harness::Folder;
use crate::surface::SERVERS;

/// The schema that a server prints.
pub(super) fn schema(server: &str) -> Value {
    let ended = run(server, &["schema"], &[]);
    assert_eq!(ended.code, 0, "{server}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The options in a schema.
pub(super) fn settings<'a>(server: &str, schema: &'a Value) -> &'a Map<String, Value> {
    let table = match server {
        "mcp-gateway" => &schema["properties"]["server"],
        _ => schema,
    };
    table["properties"].as_object().unwrap()
}

/// Keywords that say nothing about the value itself.
const WITHOUT_CHECK: &str =
    "$schema $defs title description default format pattern properties additionalProperties";

/// The faults of a value by a schema, with the keywords that these schemas have.
fn faults(schema: &Value, root: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Some(schema) = schema.as_object() else {
        return if schema == &json!(false) {
            vec![format!("{at}: not allowed")]
        } else {
            found
        };
    };
    let is_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    for (keyword, rule) in schema {
        let is_met = match keyword.as_str() {
            keyword if WITHOUT_CHECK.split(' ').any(|known| known == keyword) => true,
            "type" => match rule {
                Value::String(name) => is_type(name),
                names => names
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|name| is_type(name.as_str().unwrap())),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value
                .as_f64()
                .is_none_or(|value| value >= rule.as_f64().unwrap()),
            "maximum" => value
                .as_f64()
                .is_none_or(|value| value <= rule.as_f64().unwrap()),
            "exclusiveMinimum" => value
                .as_f64()
                .is_none_or(|value| value > rule.as_f64().unwrap()),
            "required" => {
                let mut names = rule.as_array().unwrap().iter();
                let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                !value.is_object() || names.all(has)
            }
            "minItems" => value
                .as_array()
                .is_none_or(|list| list.len() as u64 >= rule.as_u64().unwrap()),
            "anyOf" | "oneOf" => {
                let any = rule.as_array().unwrap().iter();
                any.map(|one| faults(one, root, value, at))
                    .any(|found| found.is_empty())
            }
            "$ref" => {
                let target = root
                    .pointer(rule.as_str().unwrap().trim_start_matches('#'))
                    .unwrap();
                faults(target, root, value, at).is_empty()
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.for_each(|item| found.extend(faults(rule, root, item, at)));
                true
            }
            other => panic!("{at}: the keyword {other} is not known here"),
        };
        if !is_met {
            found.push(format!("{at}: {keyword}"));
        }
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let rule = schema.get("properties").and_then(|known| known.get(key));
        if let Some(rule) = rule.or_else(|| schema.get("additionalProperties")) {
            found.extend(faults(rule, root, value, &format!("{at}.{key}")));
        }
    }
    found
}

fn file_faults(schema: &Value, text: &str) -> Vec<String> {
    let file: Value = toml::from_str(text).unwrap();
    faults(schema, schema, &file, "")
}

#[test]
fn schemas_are_fresh() {
    for server in SERVERS {
        let path = format!("docs/schema/{server}.json");
        check(&path, &run(server, &["schema"], &[]).stdout);
    }
}

#[test]
fn schemas_describe_every_key() {
    for server in SERVERS {
        let schema = schema(server);
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        assert_eq!(schema["$schema"], dialect);
        for (key, value) in settings(server, &schema) {
            let text = value["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{server}: {key} has no description");
            if let Some(default) = value.get("default") {
                let faults = faults(value, &schema, default, key);
                assert!(faults.is_empty(), "{server}: {faults:?}");
            }
        }
    }
}

#[test]
fn examples_are_valid_and_wrong_files_are_not() {
    let folder = Folder::new();
    for name in ["tokens", "n8n-key", "openhands-key", "n8n-token"] {
        folder.write(name, "hunter2-hunter2-hunter2\n");
    }
    for server in SERVERS.into_iter().skip(1) {
        let schema = schema(server);
        let example = root().join(format!("docs/examples/{server}.toml"));
        let text = std::fs::read_to_string(example).unwrap();
        let faults = file_faults(&schema, &text);
        assert!(faults.is_empty(), "{server}: {faults:?}");
        let file = folder.write("example.toml", &text);
        let ended = run(server, &["doctor", "--offline", "--config", &file], &[]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        for wrong in [
            "prot = 1",
            "port = \"1\"",
            "stdio = 1",
            "toolsets = []",
            "toolsets = [1]",
            "error_profile = \"x\"",
            "body_limit = -1",
            "read-only = true",
        ] {
            assert!(!file_faults(&schema, wrong).is_empty(), "{server}: {wrong}");
            let file = folder.write("wrong.toml", wrong);
            let ended = run(server, &["doctor", "--offline", "--config", &file], &[]);
            assert_eq!(ended.code, 78, "{server}: {wrong}");
        }
    }
}

/// The tables of the gateway's file, as the documents show them.
#[test]
fn files_of_the_gateway_are_judged_by_its_schema() {
    let schema = schema("mcp-gateway");
    for page in [
        "gateway-file",
        "roles",
        "approvals",
        "views",
        "backend-oauth",
    ] {
        let text = std::fs::read_to_string(root().join(format!("docs/{page}.md"))).unwrap();
        let blocks = text.split("```toml\n").skip(1);
        for block in blocks.filter_map(|block| block.split("```").next()) {
            assert_eq!(file_faults(&schema, block), Vec::<String>::new(), "{page}");
        }
    }
    for wrong in [
        "backend = {}",
        "search_above = \"5\"",
        "pins = \"held\"",
        "timeout = true",
        "[backends.a]\nurls = \"http://a\"",
        "[backends.a]\ncommand = \"a\"",
        "[backends.a]\nisolation = \"unset\"",
        "[backends.a.tools.x]\neffect = \"writes\"",
        "[backends.a.oauth]\nscope = \"x\"",
        "[roles.r]\nalow = []",
        "[roles.r]\nown = [\"events\"]",
        "[roles.r]\napprove = \"user\"",
        "[principals]\nalice = 1",
        "[approvals]\nallow_own = \"no\"",
        "[views.v]\nown = [\"search_tools\"]",
        "[events]\ndays = -1",
    ] {
        assert!(!file_faults(&schema, wrong).is_empty(), "{wrong}");
    }
}
