//! Finds risky nodes of a workflow, to be reviewed before it runs. Pure: reads only the nodes.

use serde::Serialize;
use serde_json::Value;
use upstream::redact::Redactor;

use crate::node_type::{last_part, runs_code};
use crate::trigger::{Trigger, TriggerKind, triggers};
use crate::workflow::Workflow;

/// A node that a person should look at, and why.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Risk {
    node: String,
    risk: &'static str,
}

/// Nodes that run commands or reach files of a machine.
const MACHINE_NODES: &str = "executeCommand ssh readWriteFile readBinaryFile readBinaryFiles \
    writeBinaryFile localFileTrigger ftp git";

/// The risks of a workflow, in the order of its nodes.
pub fn risks(workflow: &Workflow) -> Vec<Risk> {
    let mut risks = Vec::new();
    for node in workflow.nodes.iter().filter(|node| !node.disabled) {
        let name = last_part(&node.kind);
        let is_machine = MACHINE_NODES.split(' ').any(|one| one == name);
        let mut add = |risk| {
            let node = node.name.clone();
            risks.push(Risk { node, risk });
        };
        if is_machine {
            add("runs commands or reaches files of a machine");
        } else if runs_code(&node.kind) {
            add("runs code");
        }
        if !node.kind.starts_with("n8n-nodes-base.") && !node.kind.starts_with("@n8n/") {
            add("comes from a community package");
        }
        let is_expression = |parameter: &str| {
            let value = node.parameters.get(parameter).and_then(Value::as_str);
            value.is_some_and(|text| text.starts_with('='))
        };
        if name == "httpRequest" && is_expression("url") {
            add("calls an address that its input decides");
        }
        if is_expression("query") || is_expression("command") {
            add("puts its input into a query or command");
        }
        let mut parameters = Value::Object(node.parameters.clone());
        if Redactor::new(true).json(&mut parameters) > 0 {
            add("contains what looks like a secret outside of credentials");
        }
    }
    for trigger in triggers(workflow) {
        if is_open(&trigger) {
            let node = trigger.node.name.clone();
            risks.push(Risk {
                node,
                risk: "can be started by anyone who knows its URL",
            });
        }
    }
    risks
}

/// True if the trigger has a production URL without authentication.
fn is_open(trigger: &Trigger<'_>) -> bool {
    let has_url = match trigger.kind {
        TriggerKind::Webhook | TriggerKind::Form => true,
        TriggerKind::Chat => trigger.node.parameters.get("public") == Some(&Value::Bool(true)),
        _ => false,
    };
    has_url && trigger.authentication().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn risky_nodes_are_named() {
        let workflow = json!({"id": "w", "name": "W", "nodes": [
            {"name": "Hook", "type": "n8n-nodes-base.webhook", "parameters": {"path": "a"}},
            {"name": "Safe hook", "type": "n8n-nodes-base.webhook", "parameters": {"authentication": "headerAuth"}},
            {"name": "Code", "type": "n8n-nodes-base.code"},
            {"name": "Off", "type": "n8n-nodes-base.code", "disabled": true},
            {"name": "Call", "type": "n8n-nodes-base.httpRequest", "parameters": {"url": "={{ $json.url }}", "headerParameters": {"parameters": [{"name": "Authorization", "value": "Bearer abc123"}]}}},
            {"name": "Set", "type": "n8n-nodes-base.set"},
            {"name": "Foreign", "type": "n8n-nodes-foo.bar"},
        ]});
        let risks = risks(&serde_json::from_value(workflow).unwrap());
        let names: Vec<_> = risks.iter().map(|risk| risk.node.as_str()).collect();
        assert_eq!(names, ["Code", "Call", "Call", "Foreign", "Hook"]);
    }
}
