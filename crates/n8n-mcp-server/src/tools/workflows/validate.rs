//! `validate_workflow`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::known::{self, Known};
use super::load;
use crate::id::Id;
use crate::service::N8n;
use crate::workflow::Draft;
use crate::workflow::check::{Finding, check, has_errors, unknown_settings};

/// More would not be read.
const MAX_FINDINGS: usize = 50;

/// Checks a workflow without running it: structure, connections, expressions, trigger, credentials,
/// and nodes and parameters as this n8n knows them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateWorkflow {
    /// One that n8n has; or else:
    workflow_id: Option<Id>,
    /// Its name, nodes, connections and settings.
    workflow: Option<Map<String, Value>>,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Findings {
    /// There are no errors.
    valid: bool,
    findings: Vec<Finding>,
    /// How many more there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// What could not be checked, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchecked: Vec<String>,
}

impl Tool for ValidateWorkflow {
    const NAME: &'static str = "validate_workflow";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Findings;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Findings, ToolError> {
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
        findings.extend(unknown_settings(&draft));
        let mut unchecked = Vec::new();
        let nodes: Vec<_> = draft.nodes.iter().collect();
        match of_n8n(n8n, &draft, &nodes).await {
            Ok(more) => findings.extend(more),
            Err(why) => unchecked.push(format!("node types and parameters: {why}")),
        }
        match known::credentials(n8n, &draft).await {
            Some(more) => findings.extend(more),
            None => unchecked.push("credentials: this n8n or API key does not list them".into()),
        }
        findings.sort_by_key(|finding| finding.severity);
        let more = findings.len().checked_sub(MAX_FINDINGS + 1);
        let valid = !has_errors(&findings);
        findings.truncate(MAX_FINDINGS);
        Ok(Findings {
            valid,
            findings,
            more: more.map(|more| more + 1),
            unchecked,
        })
    }
}

async fn of_n8n(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Map<String, Value>],
) -> Result<Vec<Finding>, String> {
    if !n8n.mcp.is_configured() {
        return Err(
            "enable MCP access in n8n (Settings > MCP access) and set N8N_MCP_TOKEN".into(),
        );
    }
    match known::check(n8n, draft, nodes).await {
        Ok(Known::Checked(found)) => Ok(found),
        Ok(Known::NotOffered) => {
            Err("the MCP server of this n8n has no node tools; n8n 2 has".into())
        }
        Err(error) => Err(error.message().to_owned()),
    }
}
