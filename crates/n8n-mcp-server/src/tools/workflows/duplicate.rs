//! `duplicate_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::load;
use super::written::{Written, id_of};
use crate::id::Id;
use crate::service::N8n;
use crate::workflow::Draft;
use crate::workflow::check::short;

/// Copies a workflow. The copy is inactive, without tags, and its webhooks have new paths.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DuplicateWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// Default: the old name and "copy".
    name: Option<String>,
}

impl Tool for DuplicateWorkflow {
    const NAME: &'static str = "duplicate_workflow";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let (_, mut draft) = load(n8n, &self.workflow_id).await?;
        draft.name = self.name.unwrap_or_else(|| format!("{} copy", draft.name));
        renew(&mut draft);
        let (workflow, left_out) = n8n.api.create_workflow(&draft).await?;
        n8n.api.mark_for_review(&id_of(&workflow)?).await?;
        Ok(Written::new(workflow, left_out, Vec::new()))
    }
}

/// Two active workflows cannot have the same URL.
fn renew(draft: &mut Draft) {
    for node in &mut draft.nodes {
        let has_url = matches!(short(node), "webhook" | "formTrigger");
        if node.contains_key("webhookId") {
            node.insert("webhookId".into(), Uuid::new_v4().to_string().into());
        }
        let mut parameters = node.get_mut("parameters").and_then(Value::as_object_mut);
        let path = parameters.as_mut().and_then(|all| all.get_mut("path"));
        if let (true, Some(path)) = (has_url, path) {
            let old = path.as_str().unwrap_or_default();
            let suffix = &Uuid::new_v4().simple().to_string()[..8];
            *path = json!(format!("{}-{suffix}", old.trim_end_matches('/')));
        }
    }
}
