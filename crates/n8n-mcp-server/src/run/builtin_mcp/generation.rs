//! The two generations of `execute_workflow`, told apart by the tool's schema: the newer one demands
//! `executionMode` and returns at once, the older one wants a `type` among the inputs and returns
//! when the run has ended.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::id::Id;
use crate::plan::{Inputs, McpStart};
use crate::trigger::Mode;

pub(super) const EXECUTE: &str = "execute_workflow";
pub(super) const TEST: &str = "test_workflow";
/// Seconds after which n8n ends a test; the most that it takes.
const TEST_TIMEOUT: u32 = 3_600;

/// A generation of n8n's built-in MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// n8n 1: waits for the end.
    Waiting,
    /// n8n 2: returns the id at once.
    Starting,
}

impl Generation {
    /// The generation whose `execute_workflow` has this schema.
    pub(super) fn of(schema: &str) -> Self {
        #[derive(Default, Deserialize)]
        struct Schema {
            properties: Properties,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Properties {
            execution_mode: Option<serde::de::IgnoredAny>,
        }
        let schema: Schema = serde_json::from_str(schema).unwrap_or_default();
        match schema.properties.execution_mode {
            Some(_) => Generation::Starting,
            None => Generation::Waiting,
        }
    }

    /// The tool that starts the run, and its arguments.
    pub(super) fn call(
        self,
        workflow: &Id,
        start: &McpStart,
        request_id: &str,
    ) -> (&'static str, Value) {
        match (&start.inputs, self) {
            (Inputs::Item(item), _) => (TEST, test(workflow, start, item, request_id)),
            (_, Self::Waiting) => (EXECUTE, older(workflow, start)),
            (_, Self::Starting) => (EXECUTE, newer(workflow, start)),
        }
    }
}

/// The trigger's output is pinned. n8n keeps what stands beside `json` in it, and its nodes do not
/// see that: the execution is found by it while n8n waits for its end.
fn test(workflow: &Id, start: &McpStart, item: &Value, request_id: &str) -> Value {
    json!({
        "workflowId": workflow.as_str(),
        "triggerNodeName": start.trigger,
        "pinData": {&start.trigger: [{"json": item, "mcpRequestId": request_id}]},
        "timeout": TEST_TIMEOUT,
    })
}

fn newer(workflow: &Id, start: &McpStart) -> Value {
    let mode = match start.mode {
        Mode::Production => "production",
        Mode::Manual | Mode::Test => "manual",
    };
    let mut arguments = json!({
        "workflowId": workflow.as_str(),
        "executionMode": mode,
        "triggerNodeName": start.trigger,
    });
    match &start.inputs {
        Inputs::None | Inputs::Item(_) => {}
        Inputs::Webhook(data) => arguments["inputs"] = json!({ "webhookData": data }),
        Inputs::Chat(text) => arguments["inputs"] = json!({ "chatInput": text }),
        Inputs::Form(data) => arguments["inputs"] = json!({ "formData": data }),
    }
    arguments
}

fn older(workflow: &Id, start: &McpStart) -> Value {
    let mut arguments = json!({ "workflowId": workflow.as_str() });
    match &start.inputs {
        Inputs::None | Inputs::Item(_) => {}
        Inputs::Webhook(data) => {
            arguments["inputs"] = json!({ "type": "webhook", "webhookData": data });
        }
        Inputs::Chat(text) => arguments["inputs"] = json!({ "type": "chat", "chatInput": text }),
        Inputs::Form(data) => arguments["inputs"] = json!({ "type": "form", "formData": data }),
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_told_apart_by_the_schema() {
        let newer =
            r#"{"type":"object","properties":{"workflowId":{},"executionMode":{"enum":[]}}}"#;
        let older = r#"{"type":"object","properties":{"workflowId":{},"inputs":{}}}"#;
        assert_eq!(Generation::of(newer), Generation::Starting);
        assert_eq!(Generation::of(older), Generation::Waiting);
        assert_eq!(Generation::of(""), Generation::Waiting);
    }

    #[test]
    fn each_generation_gets_its_arguments() {
        let id = Id::try_from("w1".to_owned()).unwrap();
        let mut start = McpStart {
            trigger: "T".into(),
            mode: Mode::Production,
            is_default: true,
            inputs: Inputs::Chat("hi".into()),
        };
        assert_eq!(
            newer(&id, &start),
            json!({"workflowId": "w1", "executionMode": "production", "triggerNodeName": "T", "inputs": {"chatInput": "hi"}})
        );
        assert_eq!(
            older(&id, &start),
            json!({"workflowId": "w1", "inputs": {"type": "chat", "chatInput": "hi"}})
        );
        (start.mode, start.inputs) = (Mode::Manual, Inputs::None);
        assert_eq!(
            newer(&id, &start),
            json!({"workflowId": "w1", "executionMode": "manual", "triggerNodeName": "T"})
        );
        (start.mode, start.inputs) = (Mode::Test, Inputs::Item(json!({"n": 1})));
        let pinned = json!({"T": [{"json": {"n": 1}, "mcpRequestId": "rid"}]});
        assert_eq!(
            Generation::Starting.call(&id, &start, "rid"),
            (
                TEST,
                json!({"workflowId": "w1", "triggerNodeName": "T", "pinData": pinned, "timeout": 3600})
            )
        );
    }
}
