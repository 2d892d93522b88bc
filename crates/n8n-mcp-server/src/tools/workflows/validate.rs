//! `validate_workflow`

use super::{load, node_catalog};
use crate::tools::prelude::*;
use crate::workflow::Draft;
use crate::workflow::check::{Finding, Severity, check, check_settings};

/// A model would not read more.
const MAX_FINDINGS: usize = 50;

/// Checks a workflow without running it: structure, connections, expressions, trigger, credentials,
/// and nodes and parameters as this n8n knows them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateWorkflow {
    /// Or pass `workflow`.
    workflow_id: Option<Id>,
    /// Its name, nodes, connections and settings.
    workflow: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Validation {
    /// There are no errors.
    valid: bool,
    findings: Vec<Finding>,
    /// Further findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// Skipped checks, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchecked: Vec<String>,
}

impl Tool for ValidateWorkflow {
    const NAME: &'static str = "validate_workflow";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Validation;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Validation, ToolError> {
        let draft = match (self.workflow_id, self.workflow) {
            (Some(id), None) => load(n8n, &id).await?.1,
            (None, Some(given)) => Draft::read(given)?,
            _ => {
                return Err(ToolError::invalid_argument(
                    "Pass either `workflow_id` or `workflow`.",
                ));
            }
        };
        let mut findings = check(&draft);
        findings.extend(check_settings(&draft));
        let mut unchecked = Vec::new();
        match check_with_n8n(n8n, &draft).await {
            Ok(more) => findings.extend(more),
            Err(why) => unchecked.push(format!("node types and parameters: {why}")),
        }
        match node_catalog::check_credentials(n8n, &draft).await {
            Some(more) => findings.extend(more),
            None => unchecked.push("credentials: this n8n or API key does not list them".into()),
        }
        findings.sort_by_key(|finding| finding.severity);
        let more = findings.len().saturating_sub(MAX_FINDINGS);
        let valid = findings.iter().all(|one| one.severity != Severity::Error);
        findings.truncate(MAX_FINDINGS);
        Ok(Validation {
            valid,
            findings,
            more: (more > 0).then_some(more),
            unchecked,
        })
    }
}

/// Checks all nodes against this n8n, or returns why that is not possible.
async fn check_with_n8n(n8n: &N8n, draft: &Draft) -> Result<Vec<Finding>, String> {
    if !n8n.mcp.is_configured() {
        return Err(
            "enable MCP access in n8n (Settings > MCP access) and set N8N_MCP_TOKEN".into(),
        );
    }
    let nodes: Vec<_> = draft.nodes.iter().collect();
    let found = node_catalog::check(n8n, draft, &nodes).await;
    found
        .map_err(|error| error.message().to_owned())?
        .ok_or_else(|| {
            "the MCP server of this n8n has no node tools: update n8n to version 2".into()
        })
}
