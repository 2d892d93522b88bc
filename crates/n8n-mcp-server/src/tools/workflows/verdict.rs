//! All findings about a draft: what n8n says to publishing it, if it is asked, and warnings beyond that.

use mcp_core::tool::ToolErrorKind;
use n8n_workflow::check::{Finding, Findings, NO_TRIGGER, Severity, check};
use n8n_workflow::draft::{Draft, called_workflows};
use serde_json::{Map, Value};

use super::node_catalog;
use crate::service::N8n;

/// Workflows that a draft calls and that are looked for.
const MAX_CALLED: usize = 10;

pub(super) struct Verdict {
    /// Errors first.
    pub(super) findings: Vec<Finding>,
    /// Skipped checks, and why.
    pub(super) unchecked: Vec<String>,
}

/// Whether n8n is asked if it would publish a draft.
pub(super) enum Publishing {
    /// Yes, with a copy that is deleted at once.
    Ask {
        /// It is a version of an active workflow, which has its webhooks.
        is_active: bool,
    },
    /// No: n8n says so when it publishes the draft itself.
    DoNotAsk,
}

/// Checks a draft, and the parameters of some of its nodes.
pub(super) async fn judge(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Map<String, Value>],
    publishing: Publishing,
) -> Verdict {
    let (mut findings, mut unchecked) = (check(draft), Vec::new());
    // n8n would repeat errors of structure, and say no more.
    let is_told = findings
        .iter()
        .any(|one| one.severity == Severity::Error && one.message != NO_TRIGGER);
    let published = match publishing {
        Publishing::DoNotAsk => None,
        Publishing::Ask { .. } if is_told => {
            unchecked.push("publishing: n8n checks a workflow without the errors above".to_owned());
            None
        }
        Publishing::Ask { is_active } => match n8n.api.publish_findings(draft, is_active).await {
            Ok(published) => Some(published),
            Err(why) => {
                unchecked.push(format!("publishing: {why}"));
                None
            }
        },
    };
    if published.is_some() {
        findings.retain(|one| one.message != NO_TRIGGER);
    }
    match node_catalog::check(n8n, draft, nodes, published.as_deref()).await {
        Ok(more) => findings.extend(more),
        Err(why) => unchecked.push(format!("node types and parameters: {why}")),
    }
    findings.extend(published.unwrap_or_default());
    match node_catalog::check_credentials(n8n, draft).await {
        Some(more) => findings.extend(more),
        None => unchecked.push("credentials: this n8n or API key does not list them".into()),
    }
    findings.extend(check_called(n8n, draft).await);
    findings.sort_by_key(|finding| finding.severity);
    Verdict {
        findings,
        unchecked,
    }
}

/// Finds workflows that are called and do not exist, and an error workflow that never starts.
async fn check_called(n8n: &N8n, draft: &Draft) -> Vec<Finding> {
    let mut found = Findings::default();
    for called in called_workflows(draft).iter().take(MAX_CALLED) {
        let Some(id) = called.id() else { continue };
        let place = &called.place;
        match n8n.api.workflow(&id).await {
            Err(error) if error.kind() == ToolErrorKind::NotFound => {
                let message = format!("{place} names workflow {id}, which does not exist.");
                found.warning("", message, "list_workflows shows those that exist.");
            }
            Ok(workflow) if !workflow.active && place.starts_with("the setting") => {
                let message = format!("The error workflow {id} is not active: it never starts.");
                found.warning("", message, "Activate it.");
            }
            _ => {}
        }
    }
    found.0
}
