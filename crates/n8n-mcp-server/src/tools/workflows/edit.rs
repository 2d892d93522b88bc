//! `edit_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::load;
use super::written::{Written, checked, is_current};
use crate::id::Id;
use crate::service::N8n;
use crate::workflow::{Operation, apply};

/// Changes a workflow by small operations: all of them or, if one cannot be done or the result would
/// have errors, none. What is active goes live at once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// In order; each names its node.
    operations: Vec<Operation>,
    /// From get_workflow: refused if somebody has changed it since.
    version: Option<String>,
    /// Only check.
    #[serde(default)]
    dry_run: bool,
}

impl Tool for EditWorkflow {
    const NAME: &'static str = "edit_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        if self.operations.is_empty() {
            return Err(ToolError::invalid_argument("`operations` is empty."));
        }
        let (current, before) = load(n8n, &self.workflow_id).await?;
        is_current(&current, self.version.as_deref())?;
        n8n.api.policy.check_write(&current)?;
        let draft = apply(&before, self.operations)?;
        let warnings = checked(n8n, Some(&before), &draft).await?;
        if self.dry_run {
            return Ok(Written::checked_only(current, warnings));
        }
        let written = n8n.api.replace_workflow(&self.workflow_id, &draft).await?;
        n8n.api.mark_for_review(&self.workflow_id).await?;
        Ok(Written::new(written.0, written.1, warnings))
    }
}
