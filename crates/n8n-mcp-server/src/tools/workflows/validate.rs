//! `validate_workflow`

use n8n_workflow::UnpublishedDraft;
use n8n_workflow::check::{Finding, Severity};
use n8n_workflow::draft::Draft;

use super::verdict::{Publishing, Verdict, judge};
use super::{impossible, load};
use crate::tools::prelude::*;

/// A model would not read more.
const MAX_FINDINGS: usize = 50;

/// Checks a workflow without running it. Errors are what n8n refuses when it is activated: n8n is
/// asked to activate a copy that it cannot activate, which is made and deleted at once. Warnings are
/// what would probably go wrong in a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateWorkflow {
    /// Or pass `workflow`.
    workflow_id: Option<Id>,
    /// Its name, nodes, connections and settings; with its id if it exists.
    workflow: Option<Map<String, Value>>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Validation {
    /// There are no errors: n8n would activate it.
    valid: bool,
    findings: Vec<Finding>,
    /// Further findings.
    more: Option<usize>,
    /// Skipped checks, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchecked: Vec<String>,
    /// The draft, which was checked, is not what is live.
    unpublished: Option<UnpublishedDraft>,
}

impl Tool for ValidateWorkflow {
    const NAME: &'static str = "validate_workflow";
    /// It makes and deletes copies.
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Validation;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Validation, ToolError> {
        let mut hidden = Vec::new();
        let mut unpublished = None;
        let (is_active, draft) = match (self.workflow_id, self.workflow) {
            (Some(id), None) => {
                let (workflow, draft) = load(n8n, &id).await?;
                unpublished = n8n.api.unpublished(&workflow).await;
                (workflow.active, draft)
            }
            (None, Some(given)) => {
                // What get_workflow returned of an active workflow has its webhooks.
                let id = given
                    .get("id")
                    .and_then(|id| Id::try_from(id.as_str()?.to_owned()).ok());
                let old = match id {
                    Some(id) => load(n8n, &id).await.ok(),
                    None => None,
                };
                let mut draft = Draft::read(given).map_err(impossible)?;
                hidden = draft.accept_placeholders();
                let before = old.as_ref().map(|(_, before)| before);
                n8n.api.admit_called(before, &draft).await?;
                (old.is_some_and(|(workflow, _)| workflow.active), draft)
            }
            _ => {
                return Err(ToolError::invalid_argument(
                    "Pass either `workflow_id` or `workflow`.",
                ));
            }
        };
        let nodes: Vec<_> = draft.nodes.iter().collect();
        let Verdict {
            mut findings,
            mut unchecked,
        } = judge(n8n, &draft, &nodes, Publishing::Ask { is_active }).await;
        if !hidden.is_empty() {
            unchecked.push(format!(
                "hidden values, at {}: update_workflow puts them back where they stood, and create_workflow \
                 refuses them",
                hidden.join("; ")
            ));
        }
        let more = findings.len().saturating_sub(MAX_FINDINGS);
        let valid = findings.iter().all(|one| one.severity != Severity::Error);
        findings.truncate(MAX_FINDINGS);
        Ok(Validation {
            valid,
            findings,
            more: (more > 0).then_some(more),
            unchecked,
            unpublished,
        })
    }
}
