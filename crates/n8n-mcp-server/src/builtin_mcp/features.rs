//! Features of the MCP server of this n8n, and the calls that it takes for that reason.
//!
//! `execute_workflow` exists twice, told apart by its schema: that of n8n 2 demands `executionMode`
//! and returns at once, that of n8n 1 wants a `type` among the inputs and returns when the run has
//! ended.

use std::collections::HashSet;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Inputs, McpRequest};
use crate::id::Id;
use crate::trigger::Way;

pub(super) const EXECUTE: &str = "execute_workflow";
pub(super) const TEST: &str = "test_workflow";
/// Seconds after which n8n ends a test; the most that it takes.
const TEST_TIMEOUT: u32 = 3_600;

/// Features of the server; asked for once per connection.
#[derive(Debug)]
pub(super) struct McpFeatures {
    tools: HashSet<String>,
    /// n8n 1: `execute_workflow` chooses the trigger by itself and answers when the run has ended.
    pub(super) answers_late: bool,
}

impl McpFeatures {
    /// The features of a server with these tools, whose `execute_workflow` has this schema.
    pub(super) fn new(tools: HashSet<String>, schema: &str) -> Self {
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
        Self {
            tools,
            answers_late: schema.properties.execution_mode.is_none(),
        }
    }

    /// True if there is a tool of this name.
    pub(super) fn has(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    /// Refuses what this server cannot start.
    pub(super) fn check(&self, request: &McpRequest) -> Result<(), ToolError> {
        let text = match request.way {
            Way::McpTest if !self.has(TEST) => {
                "The MCP server of this n8n has no test mode, which hands parameters to manual \
                 triggers and sub-workflows. Give the workflow a Webhook trigger and activate it, \
                 or update n8n."
            }
            Way::McpProduction | Way::McpManual if self.answers_late && !request.is_default => {
                "The MCP server of this n8n starts only the first trigger of an active workflow. \
                 Activate it in n8n and give it a Webhook trigger, or update n8n."
            }
            _ => return Ok(()),
        };
        Err(ToolError::conflict(text))
    }

    /// The tool that starts the run, and its arguments.
    pub(super) fn call(
        &self,
        workflow: &Id,
        request: &McpRequest,
        request_id: &str,
    ) -> (&'static str, Value) {
        let trigger = &request.trigger;
        let mut arguments = json!({ "workflowId": workflow.as_str() });
        if let Inputs::Item(item) = &request.inputs {
            // The trigger's output is pinned. n8n keeps what stands beside `json` in it, and its
            // nodes do not see that: the execution is found by it while n8n waits for its end.
            let pinned = json!({trigger: [{"json": item, "mcpRequestId": request_id}]});
            arguments["triggerNodeName"] = trigger.as_str().into();
            arguments["pinData"] = pinned;
            arguments["timeout"] = TEST_TIMEOUT.into();
            return (TEST, arguments);
        }
        if !self.answers_late {
            let is_production = request.way == Way::McpProduction;
            let mode = if is_production {
                "production"
            } else {
                "manual"
            };
            arguments["executionMode"] = mode.into();
            arguments["triggerNodeName"] = trigger.as_str().into();
        }
        let (kind, mut inputs) = match &request.inputs {
            Inputs::None | Inputs::Item(_) => return (EXECUTE, arguments),
            Inputs::Webhook(data) => ("webhook", json!({ "webhookData": data })),
            Inputs::Chat(text) => ("chat", json!({ "chatInput": text })),
            Inputs::Form(data) => ("form", json!({ "formData": data })),
        };
        if self.answers_late {
            inputs["type"] = kind.into();
        }
        arguments["inputs"] = inputs;
        (EXECUTE, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWER: &str =
        r#"{"type":"object","properties":{"workflowId":{},"executionMode":{"enum":[]}}}"#;
    const OLDER: &str = r#"{"type":"object","properties":{"workflowId":{},"inputs":{}}}"#;

    #[test]
    fn each_generation_gets_its_arguments() {
        let id = Id::try_from("w1".to_owned()).unwrap();
        let request = |way, inputs| McpRequest {
            trigger: "T".into(),
            way,
            is_default: true,
            inputs,
        };
        let (chat, production) = (|| Inputs::Chat("hi".into()), Way::McpProduction);
        let older = json!({"workflowId": "w1", "inputs": {"type": "chat", "chatInput": "hi"}});
        let newer = json!({"workflowId": "w1", "executionMode": "production", "triggerNodeName": "T", "inputs": {"chatInput": "hi"}});
        let manual = json!({"workflowId": "w1", "executionMode": "manual", "triggerNodeName": "T"});
        let pinned = json!({"T": [{"json": {"n": 1}, "mcpRequestId": "rid"}]});
        let test =
            json!({"workflowId": "w1", "triggerNodeName": "T", "pinData": pinned, "timeout": 3600});
        let item = Inputs::Item(json!({"n": 1}));
        for (schema, request, expected) in [
            (NEWER, request(production, chat()), (EXECUTE, newer)),
            (OLDER, request(production, chat()), (EXECUTE, older.clone())),
            ("", request(production, chat()), (EXECUTE, older)),
            (
                NEWER,
                request(Way::McpManual, Inputs::None),
                (EXECUTE, manual),
            ),
            (NEWER, request(Way::McpTest, item), (TEST, test)),
        ] {
            let features = McpFeatures::new(HashSet::new(), schema);
            assert_eq!(features.call(&id, &request, "rid"), expected);
        }
    }
}
