//! Drafts are read, changed and checked.

use serde_json::json;

use super::*;
use crate::check::{Severity, check};
use crate::connections::parse_connections;

fn draft(json: Value) -> Draft {
    let Value::Object(json) = json else {
        panic!("an object")
    };
    Draft::read(json).unwrap()
}

fn operations(json: Value) -> Vec<Operation> {
    serde_json::from_value(json).unwrap()
}

/// Webhook -> Set, which names the webhook.
fn sample() -> Draft {
    draft(json!({
        "id": "w", "active": true, "name": "W", "settings": {"executionOrder": "v1", "binaryMode": "separate"},
        "nodes": [
            {"name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "parameters": {"path": "a"}, "color": 1},
            {"name": "Set", "type": "n8n-nodes-base.set", "typeVersion": 3.4,
             "parameters": {"value": "={{ $('Webhook').item.json.x + $node[\"Webhook\"].json.y }}", "deep": {"a": 1, "b": 2}}},
        ],
        "connections": {"Webhook": {"main": [[{"node": "Set", "type": "main", "index": 0}]]}},
    }))
}

#[test]
fn unknown_fields_are_left_out_and_listed() {
    let (body, left_out) = sample().writable().unwrap().body(FieldSet::Newest);
    let keys: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["name", "nodes", "connections", "settings"]);
    assert_eq!(left_out, ["settings: binaryMode", "Webhook: color"]);
    assert!(body["nodes"][0]["webhookId"].is_string());
    assert_ne!(body["nodes"][0]["position"], body["nodes"][1]["position"]);
}

#[test]
fn values_of_other_programs_are_written_as_n8n_takes_them() {
    let read = draft(
        json!({"name": "W", "settings": {"errorWorkflow": null, "timezone": "UTC"},
            "connections": {"A": null, "B": {"main": [null, [null, {"node": "A"}]]}, "C": {"main": null}},
            "nodes": [{"id": 5, "name": 7, "type": "a.b", "typeVersion": "2.0", "position": [1.5, 2.5],
                "parameters": null, "credentials": null, "webhookId": null, "notes": 3}],
        }),
    );
    let (body, _) = read.writable().unwrap().body(FieldSet::Newest);
    assert_eq!(
        body,
        json!({"name": "W", "nodes": [{"id": "5", "name": "7", "type": "a.b",
        "typeVersion": 2, "position": [1.5, 2.5], "notes": "3", "parameters": {}}],
        "connections": {"B": {"main": [null, [{"node": "A"}]]}, "C": {}}, "settings": {"timezone": "UTC"}})
    );
}

#[test]
fn node_is_renamed_in_expressions_and_connections() {
    let rename = json!([{"op": "rename_node", "node": "Webhook", "to": "In's"}]);
    let changed = apply(&sample(), &sample(), operations(rename)).unwrap();
    let text = &changed.node("Set").unwrap()["parameters"]["value"];
    let expected = r#"={{ $('In\'s').item.json.x + $node["In's"].json.y }}"#;
    assert_eq!(*text, expected);
    let all = parse_connections(&changed.connections).unwrap();
    assert_eq!((&*all[0].from, &*all[0].to), ("In's", "Set"));
}

#[test]
fn nodes_are_added_connected_and_configured() {
    let all = operations(json!([
        {"op": "add_node", "node": "If", "type": "n8n-nodes-base.if", "version": 2.2, "parameters": {"a": 1}},
        {"op": "connect", "node": "Set", "to": "If"},
        {"op": "connect", "node": "If", "to": "Set", "output": 1},
        {"op": "configure_node", "node": "Set", "parameters": {"deep": {"a": null, "c": 3}}, "fields": {"disabled": true}},
        {"op": "set_settings", "settings": {"executionTimeout": 5, "executionOrder": null}},
        {"op": "rename_workflow", "to": "Other"},
        {"op": "disconnect", "node": "Webhook", "to": "Set"},
    ]));
    let changed = apply(&sample(), &sample(), all).unwrap();
    assert_eq!(changed.name, "Other");
    let set = changed.node("Set").unwrap();
    assert_eq!(set["parameters"]["deep"], json!({"b": 2, "c": 3}));
    assert_eq!(set["disabled"], true);
    assert_eq!(changed.settings["executionTimeout"], 5);
    assert!(!changed.settings.contains_key("executionOrder"));
    let target = json!([{"node": "Set", "type": "main", "index": 0}]);
    assert_eq!(changed.connections["If"], json!({"main": [[], target]}));
    assert!(!changed.connections.contains_key("Webhook"));
    assert_eq!(changed.node("If").unwrap()["typeVersion"], 2.2);
}

#[test]
fn impossible_operation_is_rejected_with_the_reason() {
    let first = json!({"op": "rename_workflow", "to": "X"});
    let table = json!([
        [{"op": "add_node", "node": "Set", "type": "a.b"}, "already"],
        [{"op": "add_node", "node": "New"}, "`type` is missing"],
        [{"op": "remove_node", "node": "Nope"}, "there are \"Webhook\", \"Set\""],
        [{"op": "connect", "node": "Set"}, "`to` is missing"],
        [{"op": "disconnect", "node": "Set", "to": "Webhook"}, "not connected"],
        [{"op": "set_settings", "settings": {"foo": 1}}, "no setting \"foo\""],
        [{"op": "configure_node", "node": "Set", "fields": {"name": "x"}}, "cannot contain"],
        [{"op": "rename_node", "node": "Set", "to": "Webhook"}, "already"],
    ]);
    for row in table.as_array().unwrap() {
        let (bad, part) = (&row[0], row[1].as_str().unwrap());
        let given = operations(json!([first, bad]));
        let error = apply(&sample(), &sample(), given).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("operations[1]"), "{error}");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn redacted_values_are_restored() {
    let with = |value: &str, x: i32| {
        draft(json!({"name": "W", "nodes": [
            {"id": "1", "name": "H", "type": "a.b", "position": [0, 0],
             "parameters": {"headers": [{"name": "Authorization", "value": value}], "x": x}},
        ]}))
    };
    let mut given = with("***", 2);
    restore(&mut given, &with("***", 1), &with("Bearer abc", 1)).unwrap();
    assert_eq!(given, with("Bearer abc", 2));
    assert!(with("***", 1).writable().is_err());
}

#[test]
fn problems_are_found() {
    use Severity::{Error, Warning};
    assert!(check(&sample()).is_empty(), "{:?}", check(&sample()));
    let hook = json!({"name": "H", "type": "n8n-nodes-base.webhook", "parameters": {"path": "a"}});
    let set = |name: &str, value: &str| json!({"name": name, "type": "n8n-nodes-base.set", "parameters": {"v": value}});
    let of = |nodes: Value, connections: Value| json!({"name": "W", "nodes": nodes, "connections": connections});
    let to = |node: &str| json!({"H": {"main": [[{"node": node, "type": "main", "index": 0}]]}});
    let alone = |nodes: Value| of(nodes, json!({}));
    let with = |value: &str| of(json!([hook, set("S", value)]), to("S"));
    let code = json!({"name": "C", "type": "n8n-nodes-base.code", "parameters": {"jsCode": "return $('Y').all()"}});
    let code = of(json!([hook, code]), to("C"));
    let bare = json!({"name": "B", "type": "set"});
    let odd = of(json!([hook]), json!({"H": 1}));
    for (workflow, severity, node, part) in [
        (alone(json!([set("S", "x")])), Error, "", "No trigger"),
        (
            alone(json!([hook, set("S", "x")])),
            Warning,
            "S",
            "never runs",
        ),
        (alone(json!([hook, hook])), Error, "H", "this name"),
        (of(json!([hook]), to("Nope")), Error, "H", "\"Nope\""),
        (odd, Error, "", "cannot be read"),
        (with("={{ $('X').first() }}"), Warning, "S", "\"X\""),
        (with("={{ $json.a"), Warning, "S", "without"),
        (with("={{ }}"), Warning, "S", "empty"),
        (with("{{ $json.a }}"), Warning, "S", "does not start"),
        (code.clone(), Warning, "C", "\"Y\""),
        (code, Warning, "C", "runs code"),
        (alone(json!([hook, bare])), Error, "B", "not a type"),
    ] {
        let found = check(&draft(workflow));
        let hit = found.iter().any(|one| {
            let named = one.node.as_deref().unwrap_or_default();
            one.severity == severity && named == node && one.message.contains(part)
        });
        assert!(hit, "{found:#?}");
    }
}
