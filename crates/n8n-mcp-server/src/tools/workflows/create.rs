//! `create_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::written::{Written, checked, id_of};
use crate::service::N8n;
use crate::workflow::Draft;

/// Creates an inactive workflow, after checking it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWorkflow {
    /// What people call it.
    name: String,
    /// Each with name, type, typeVersion and parameters; id and position are optional.
    nodes: Vec<Map<String, Value>>,
    /// {"A": {"main": [[{"node": "B", "type": "main", "index": 0}]]}}.
    #[serde(default)]
    connections: Map<String, Value>,
    /// Such as executionOrder, timezone, errorWorkflow, availableInMCP.
    #[serde(default)]
    settings: Map<String, Value>,
}

impl Tool for CreateWorkflow {
    const NAME: &'static str = "create_workflow";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let Value::Object(given) = json!({
            "name": self.name, "nodes": self.nodes, "connections": self.connections,
            "settings": self.settings,
        }) else {
            return Err(ToolError::invalid_argument("`nodes` cannot be read."));
        };
        let mut draft = Draft::read(given)?;
        // As n8n's own editor does; without it n8n runs nodes in the order of its first version.
        let order = draft.settings.entry("executionOrder");
        order.or_insert_with(|| "v1".into());
        let warnings = checked(n8n, None, &draft).await?;
        let (workflow, left_out) = n8n.api.create_workflow(&draft).await?;
        n8n.api.mark_for_review(&id_of(&workflow)?).await?;
        Ok(Written::new(workflow, left_out, warnings))
    }
}
