//! What every tool that writes a workflow does before and after.

use mcp_core::tool::{ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::known::{self, Known};
use crate::api::Workflow;
use crate::id::Id;
use crate::service::N8n;
use crate::workflow::check::{Finding, NO_TRIGGER, Severity, check};
use crate::workflow::{Draft, name_of};

/// More than this says nothing new.
const MAX_FINDINGS: usize = 10;

/// A workflow that was written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Written {
    id: String,
    name: String,
    active: bool,
    /// Pass it to the next change, so that nobody else's is overwritten.
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    /// Parts that n8n does not take.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// What may be wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Written {
    pub(super) fn new(workflow: Workflow, left_out: Vec<String>, warnings: Vec<Finding>) -> Self {
        let note = workflow
            .active
            .then(|| "It is active: the change is live.".to_owned());
        Self {
            id: workflow.id,
            name: workflow.name,
            active: workflow.active,
            version: workflow.updated_at,
            left_out,
            warnings,
            note,
        }
    }

    /// Nothing was written.
    pub(super) fn checked_only(workflow: Workflow, warnings: Vec<Finding>) -> Self {
        let note = Some("Checked only: nothing was written.".to_owned());
        Self {
            note,
            ..Self::new(workflow, Vec::new(), warnings)
        }
    }
}

/// Refuses a draft with errors that it did not have `before`. What is left is only warned of.
///
/// # Errors
/// What is wrong, and how it is put right. Nothing was written.
pub(super) async fn checked(
    n8n: &N8n,
    before: Option<&Draft>,
    draft: &Draft,
) -> Result<Vec<Finding>, ToolError> {
    let old = before.map(check).unwrap_or_default();
    let mut found = check(draft);
    found.retain(|finding| !old.contains(finding));
    let is_new = |node: &&Map<String, Value>| {
        let same = before.and_then(|before| before.node(name_of(node)));
        same != Some(node)
    };
    let new: Vec<_> = draft.nodes.iter().filter(is_new).collect();
    // A server that cannot be asked does not keep anybody from writing.
    if let Ok(Known::Checked(more)) = known::check(n8n, draft, &new).await {
        found.extend(more);
    }
    let fatal =
        |finding: &&Finding| finding.severity == Severity::Error && finding.message != NO_TRIGGER;
    let errors: Vec<_> = found.iter().filter(fatal).take(MAX_FINDINGS).collect();
    if !errors.is_empty() {
        let lines = errors.iter().map(|error| format!("\n- {}", line(error)));
        return Err(ToolError::invalid_argument(format!(
            "Nothing was written. The workflow would have errors:{}",
            lines.collect::<String>()
        )));
    }
    found.truncate(MAX_FINDINGS);
    Ok(found)
}

/// Refuses to overwrite what the caller has not seen.
pub(super) fn is_current(workflow: &Workflow, version: Option<&str>) -> Result<(), ToolError> {
    match version {
        Some(version) if version != workflow.updated_at => Err(ToolError::new(
            ToolErrorKind::Conflict,
            format!(
                "Workflow {} was changed since that version; nothing was written. Read it again \
                 with get_workflow and repeat the change.",
                workflow.id
            ),
        )),
        _ => Ok(()),
    }
}

/// The id that n8n gave.
pub(super) fn id_of(workflow: &Workflow) -> Result<Id, ToolError> {
    Id::try_from(workflow.id.clone())
        .map_err(|reason| ToolError::upstream("n8n gave the workflow an odd id.").caused_by(reason))
}

fn line(finding: &Finding) -> String {
    let node = finding.node.as_deref();
    let node = node.map_or(String::new(), |node| format!("{node:?}: "));
    let fix = finding.fix.as_deref().unwrap_or_default();
    format!("{node}{} {fix}", finding.message)
}
