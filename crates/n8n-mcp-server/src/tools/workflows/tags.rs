//! `set_workflow_tags`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::service::N8n;

/// Gives a workflow these tags instead of those that it has; makes tags that there are not yet.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetWorkflowTags {
    /// From list_workflows.
    workflow_id: Id,
    /// Names, at most 24 characters each.
    tags: Vec<String>,
}

/// The tags of a workflow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tagged {
    id: String,
    tags: Vec<String>,
}

impl Tool for SetWorkflowTags {
    const NAME: &'static str = "set_workflow_tags";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Tagged;

    async fn call(mut self, n8n: &N8n, _: &Call) -> Result<Tagged, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let mut tags: Vec<String> = Vec::new();
        for tag in self.tags.drain(..) {
            let tag = tag.trim().to_owned();
            if tag.is_empty() || tag.chars().count() > 24 {
                return Err(ToolError::invalid_argument(
                    "`tags` holds a name that is blank or longer than 24 characters.",
                ));
            }
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        n8n.api.policy.check_tags(&workflow, &tags)?;
        n8n.api.set_tags(&self.workflow_id, &tags).await?;
        Ok(Tagged {
            id: workflow.id,
            tags,
        })
    }
}
