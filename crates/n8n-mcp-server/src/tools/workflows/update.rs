//! `update_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::load;
use super::written::{Written, checked, is_current};
use crate::id::Id;
use crate::service::N8n;
use crate::workflow::{Draft, restore};

/// Replaces a workflow by a whole definition, after checking it. For small changes edit_workflow is
/// better. What is active goes live at once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// As get_workflow returns with full=true: name, nodes, connections, settings. A part that is
    /// left out stays as it is; what n8n shows and does not take is ignored.
    workflow: Map<String, Value>,
    /// From get_workflow: refused if somebody has changed it since.
    version: Option<String>,
}

impl Tool for UpdateWorkflow {
    const NAME: &'static str = "update_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Written;

    async fn call(mut self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let (current, before) = load(n8n, &self.workflow_id).await?;
        is_current(&current, self.version.as_deref())?;
        n8n.api.policy.check_write(&current)?;
        // The whole answer of get_workflow holds the definition.
        if let Some(Value::Object(definition)) = self.workflow.remove("definition") {
            self.workflow = definition;
        }
        self.workflow
            .entry("name")
            .or_insert_with(|| before.name.clone().into());
        let absent = |key: &str| self.workflow.get(key).is_none_or(Value::is_null);
        let (no_nodes, no_wires, no_settings) =
            (absent("nodes"), absent("connections"), absent("settings"));
        if no_nodes {
            self.workflow
                .insert("nodes".into(), Value::Array(Vec::new()));
        }
        let mut draft = Draft::read(self.workflow)?;
        if no_nodes {
            draft.nodes.clone_from(&before.nodes);
        }
        if no_wires {
            draft.connections.clone_from(&before.connections);
        }
        if no_settings {
            draft.settings.clone_from(&before.settings);
        }
        restore(&mut draft, &shown(n8n, &before), &before);
        let warnings = checked(n8n, Some(&before), &draft).await?;
        let written = n8n.api.replace_workflow(&self.workflow_id, &draft).await?;
        n8n.api.mark_for_review(&self.workflow_id).await?;
        Ok(Written::new(written.0, written.1, warnings))
    }
}

/// The workflow as get_workflow shows it.
fn shown(n8n: &N8n, draft: &Draft) -> Draft {
    let mut shown = draft.clone();
    for node in &mut shown.nodes {
        let mut value = Value::Object(std::mem::take(node));
        n8n.redactor.json(&mut value);
        if let Value::Object(hidden) = value {
            *node = hidden;
        }
    }
    shown
}
