//! Features of the MCP server of this n8n, and the calls that it accepts.
//!
//! `execute_workflow` has two forms with different schemas: n8n 2 requires `executionMode` and
//! returns at once, n8n 1 requires a `type` among the inputs and returns at the end of the run.

use std::collections::HashSet;

use mcp_core::tool::ToolError;
use n8n_workflow::Id;
use serde_json::{Value, json};

use super::{McpInputs, McpRequest};
use crate::start_method::StartMethod;

pub(super) const EXECUTE: &str = "execute_workflow";
pub(super) const TEST: &str = "test_workflow";
/// Seconds after which n8n ends a test; the most that it accepts.
const TEST_TIMEOUT: u32 = 3_600;

/// Features of the server; read once per session.
#[derive(Debug)]
pub(super) struct McpFeatures {
    tools: HashSet<String>,
    /// n8n 1: `execute_workflow` chooses the trigger by itself and answers when the run has ended.
    pub(super) answers_at_end: bool,
}

impl McpFeatures {
    /// The features of a server with these tools, whose `execute_workflow` has this schema.
    pub(super) fn new(tools: HashSet<String>, schema: &str) -> Self {
        let schema: Value = serde_json::from_str(schema).unwrap_or_default();
        Self {
            tools,
            answers_at_end: schema["properties"]["executionMode"].is_null(),
        }
    }

    pub(super) fn has(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    /// Rejects a request that this server cannot execute.
    pub(super) fn check(&self, request: &McpRequest) -> Result<(), ToolError> {
        let text = match request.way {
            StartMethod::McpTest if !self.has(TEST) => {
                "The MCP server of this n8n has no test mode, which passes parameters to manual \
                 triggers and sub-workflows. Give the workflow a Webhook trigger and activate it, \
                 or update n8n."
            }
            StartMethod::McpProduction | StartMethod::McpManual
                if self.answers_at_end && !request.is_default =>
            {
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
        if let McpInputs::Item(item) = &request.inputs {
            // Pins the trigger's output. n8n saves members beside `json` and hides them from nodes:
            // `mcpRequestId` identifies the execution while n8n waits for its end.
            arguments["triggerNodeName"] = trigger.as_str().into();
            arguments["pinData"] = json!({trigger: [{"json": item, "mcpRequestId": request_id}]});
            arguments["timeout"] = TEST_TIMEOUT.into();
            return (TEST, arguments);
        }
        if !self.answers_at_end {
            let mode = match request.way {
                StartMethod::McpProduction => "production",
                _ => "manual",
            };
            arguments["executionMode"] = mode.into();
            arguments["triggerNodeName"] = trigger.as_str().into();
        }
        let (kind, mut inputs) = match &request.inputs {
            McpInputs::None | McpInputs::Item(_) => return (EXECUTE, arguments),
            McpInputs::Webhook(data) => ("webhook", json!({ "webhookData": data })),
            McpInputs::Chat(text) => ("chat", json!({ "chatInput": text })),
            McpInputs::Form(data) => ("form", json!({ "formData": data })),
        };
        if self.answers_at_end {
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
    fn each_version_of_n8n_gets_its_arguments() {
        let id = Id::try_from("w1".to_owned()).unwrap();
        let request = |way, inputs| McpRequest {
            trigger: "T".into(),
            way,
            is_default: true,
            inputs,
        };
        let (chat, production) = (|| McpInputs::Chat("hi".into()), StartMethod::McpProduction);
        let older = json!({"workflowId": "w1", "inputs": {"type": "chat", "chatInput": "hi"}});
        let newer = json!({"workflowId": "w1", "executionMode": "production", "triggerNodeName": "T", "inputs": {"chatInput": "hi"}});
        let manual = json!({"workflowId": "w1", "executionMode": "manual", "triggerNodeName": "T"});
        let pinned = json!({"T": [{"json": {"n": 1}, "mcpRequestId": "rid"}]});
        let test =
            json!({"workflowId": "w1", "triggerNodeName": "T", "pinData": pinned, "timeout": 3600});
        let item = McpInputs::Item(json!({"n": 1}));
        let manual_run = request(StartMethod::McpManual, McpInputs::None);
        for (schema, request, expected) in [
            (NEWER, request(production, chat()), (EXECUTE, newer)),
            (OLDER, request(production, chat()), (EXECUTE, older.clone())),
            ("", request(production, chat()), (EXECUTE, older)),
            (NEWER, manual_run, (EXECUTE, manual)),
            (NEWER, request(StartMethod::McpTest, item), (TEST, test)),
        ] {
            let features = McpFeatures::new(HashSet::new(), schema);
            assert_eq!(features.call(&id, &request, "rid"), expected);
        }
    }
}
