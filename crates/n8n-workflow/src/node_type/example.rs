//! The least parameters of a node.

use serde_json::{Map, Value, json};

use super::{NodeDefinition, NodeProperty, last_part};

impl NodeDefinition {
    /// The least parameters of a node of the type `kind`, which this defines; those of some common ones
    /// are written down here.
    pub fn example(&self, kind: &str) -> Option<Map<String, Value>> {
        let condition = json!({"combinator": "and",
            "options": {"caseSensitive": true, "leftValue": "", "typeValidation": "strict", "version": 2},
            "conditions": [{"leftValue": "={{ $json.status }}", "rightValue": "open",
                "operator": {"type": "string", "operation": "equals"}}]});
        let known = match last_part(kind) {
            "if" | "filter" => json!({ "conditions": condition }),
            "switch" => json!({"rules": {"values": [{"conditions": condition}]}}),
            "set" => json!({"assignments": {"assignments": [{"id": "1", "name": "total",
                "value": "={{ $json.price * 2 }}", "type": "number"}]}}),
            "scheduleTrigger" => json!({"rule": {"interval": [{"field": "cronExpression",
                "expression": "0 9 * * 1-5"}]}}),
            "httpRequest" => json!({"method": "POST", "url": "https://example.com/api",
                "sendBody": true, "specifyBody": "json", "jsonBody": "={{ $json }}"}),
            "webhook" => {
                json!({"httpMethod": "POST", "path": "orders", "responseMode": "lastNode"})
            }
            "respondToWebhook" => json!({"respondWith": "json", "responseBody": "={{ $json }}"}),
            "code" => json!({"jsCode": "return $input.all();"}),
            "merge" => json!({"mode": "combine", "combineBy": "combineByPosition"}),
            "agent" => json!({"promptType": "define", "text": "={{ $json.question }}"}),
            _ => {
                let needed = self
                    .properties
                    .iter()
                    .filter(|one| one.required && one.when.is_none());
                let value = |one: &NodeProperty| {
                    let first = one.r#type.split(" | ").next().unwrap_or_default();
                    match first.strip_prefix('\'') {
                        Some(text) => json!(text.trim_end_matches('\'')),
                        None if first == "string" => json!("text"),
                        None if first == "number" => json!(1),
                        None if first == "boolean" => json!(true),
                        None => Value::Null,
                    }
                };
                let all: Map<String, Value> =
                    needed.map(|one| (one.name.clone(), value(one))).collect();
                return (!all.is_empty() && all.values().all(|one| !one.is_null())).then_some(all);
            }
        };
        known.as_object().cloned()
    }
}
