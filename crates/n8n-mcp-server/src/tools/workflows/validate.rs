//! `validate_workflow`, and all findings about a draft. Nodes are checked against the nodes that this n8n has, by
//! the node tools of its built-in MCP server.

use std::collections::{BTreeMap, HashSet};

use n8n_workflow::check::{Finding, Findings, NO_TRIGGER, Severity, check};
use n8n_workflow::connections::{connection_kind, parse_connections};
use n8n_workflow::draft::Draft;
use n8n_workflow::{Node, UnpublishedDraft};

use super::load;
use crate::builtin_mcp::structured;
use crate::tools::nodes::{call_node_tool, node_text};
use crate::tools::prelude::*;

const MAX_FINDINGS: usize = 50;

/// Checks a workflow without running it. Errors are what n8n refuses when it is activated; a copy that
/// never becomes active is made for this and deleted at once. Warnings are what would probably go wrong
/// in a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateWorkflow {
    /// Pass the id or `workflow`.
    workflow_id: Option<Id>,
    /// It has name, nodes, connections and settings, and its id if it exists in n8n.
    workflow: Option<Map<String, Value>>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Validation {
    /// n8n would activate it; it is absent if there is no error and n8n could not be asked.
    valid: Option<bool>,
    findings: Vec<Finding>,
    /// There are this many further findings.
    more: Option<usize>,
    /// These checks were skipped, for these reasons.
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
                let mut draft = Draft::read(given).map_err(ToolError::invalid_argument)?;
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
        let mut verdict = judge(n8n, &draft, &nodes, Some(is_active)).await;
        if !hidden.is_empty() {
            verdict.unchecked.push(format!(
                "hidden values, at {}: update_workflow puts them back where they stood, and create_workflow \
                 refuses them",
                hidden.join("; ")
            ));
        }
        let mut findings = verdict.findings;
        let more = findings.len().saturating_sub(MAX_FINDINGS);
        let has_error = findings.iter().any(|one| one.severity == Severity::Error);
        let valid = (has_error || verdict.was_asked).then_some(!has_error);
        findings.truncate(MAX_FINDINGS);
        Ok(Validation {
            valid,
            findings,
            more: (more > 0).then_some(more),
            unchecked: verdict.unchecked,
            unpublished,
        })
    }
}

pub(super) struct Verdict {
    /// Errors first.
    pub(super) findings: Vec<Finding>,
    /// These checks were skipped, for these reasons.
    pub(super) unchecked: Vec<String>,
    /// n8n was asked whether it would publish the draft.
    pub(super) was_asked: bool,
}

/// Checks a draft, and the parameters of some of its nodes. n8n is asked whether it would publish a copy of the draft
/// if it is given whether the workflow `is_active` and has its webhooks.
pub(super) async fn judge(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Node],
    is_active: Option<bool>,
) -> Verdict {
    let (mut findings, mut unchecked) = (check(draft), Vec::new());
    // n8n would repeat errors of structure, and say no more.
    let is_told = findings
        .iter()
        .any(|one| one.severity == Severity::Error && one.message != NO_TRIGGER);
    let published = match is_active {
        None => None,
        Some(_) if is_told => {
            unchecked.push("publishing: n8n checks a workflow without the errors above".to_owned());
            None
        }
        Some(is_active) => {
            let published = n8n.api.publish_findings(draft, is_active).await;
            published
                .map_err(|why| unchecked.push(format!("publishing: {why}")))
                .ok()
        }
    };
    let was_asked = published.is_some();
    if was_asked {
        findings.retain(|one| one.message != NO_TRIGGER);
    }
    match check_nodes(n8n, draft, nodes, published.as_deref()).await {
        Ok(more) => findings.extend(more),
        Err(why) => unchecked.push(format!("node types and parameters: {}", why.message())),
    }
    findings.extend(published.unwrap_or_default());
    match check_credentials(n8n, draft).await {
        Some(more) => findings.extend(more),
        None => unchecked.push("credentials: this n8n or API key does not list them".into()),
    }
    findings.sort_by_key(|finding| finding.severity);
    Verdict {
        findings,
        unchecked,
        was_asked,
    }
}

const TYPES_TOOL: &str = "get_node_types";
const CONFIG_TOOL: &str = "validate_node_config";
const MAX_NODES_PER_CHECK: usize = 50;

/// The words of n8n about a value that may also be an expression, after the name of the field.
const EXPRESSION_ASKED: &str = "Must be an n8n expression";

/// Checks some nodes of a draft. Leaves out what n8n has `published` about them.
async fn check_nodes(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Node],
    published: Option<&[Finding]>,
) -> Result<Vec<Finding>, ToolError> {
    let mut found = Findings::default();
    if !nodes.is_empty() {
        let wanted = json!({"nodeIds": type_requests(nodes)});
        let definitions = node_text(n8n, TYPES_TOOL, &wanted).await;
        match (definitions, published) {
            (Ok(definitions), _) => find_unknown_types(&definitions, nodes, &mut found),
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error),
        }
    }
    // n8n's verdict counts, which names unknown types. Of some types it publishes a version that it does not have.
    if published.is_some() {
        found.0.retain(|one| one.severity == Severity::Warning);
    }
    let published = published.unwrap_or_default();
    for batch in nodes.chunks(MAX_NODES_PER_CHECK) {
        let configs: Vec<_> = batch.iter().map(|node| config(draft, node)).collect();
        let result = call_node_tool(n8n, CONFIG_TOOL, &json!({ "nodes": configs })).await?;
        let reply: Value = structured(&result).unwrap_or_default();
        find_invalid_parameters(&reply, batch, published, &mut found);
    }
    let (mut found, mut seen) = (found.0, HashSet::new());
    let is_published = |one: &Finding| {
        let mut published = published.iter();
        published.any(|known| known.node == one.node && known.message == one.message)
    };
    found.retain(|finding| !is_published(finding));
    found.retain(|finding| seen.insert((finding.node.clone(), finding.message.clone())));
    Ok(found)
}

/// Finds credentials that nodes name and n8n does not have; `None` if this n8n lists none.
async fn check_credentials(n8n: &N8n, draft: &Draft) -> Option<Vec<Finding>> {
    let listed = n8n
        .api
        .all::<Value>("Credential", &["credentials"], &[])
        .await;
    let (rows, true) = listed.ok()? else {
        return None;
    };
    let mut found = Findings::default();
    for node in &draft.nodes {
        let credentials = node.get("credentials").and_then(Value::as_object);
        for (kind, credential) in credentials.into_iter().flatten() {
            let id = credential.get("id").and_then(Value::as_str);
            // n8n looks for one without an id by its name and type.
            let is_it = |row: &&Value| match id {
                Some(id) => row["id"] == id,
                None => row["type"] == **kind && row["name"] == credential["name"],
            };
            let message = match rows.iter().find(is_it).map(|row| row["type"].as_str()) {
                Some(Some(own)) if own != kind => {
                    format!("Its credential ({kind}) is a credential of the type {own}.")
                }
                Some(_) => continue,
                None => format!(
                    "Its credential ({kind}) does not exist, or is not shared with the user of \
                     this API key."
                ),
            };
            found.warning(node.name(), message, "Choose one that n8n has.");
        }
    }
    Some(found.0)
}

/// One request for each type and version of nodes.
fn type_requests(nodes: &[&Node]) -> Vec<Value> {
    let mut requests = BTreeMap::new();
    for node in nodes {
        let mut request = json!({"nodeId": node.kind()});
        if let Some(version @ Value::Number(_)) = node.get("typeVersion") {
            request["version"] = version.to_string().into();
        }
        requests.insert(request.to_string(), request);
    }
    requests.into_values().collect()
}

/// Finds nodes whose type or version n8n lists as errors after the definitions.
fn find_unknown_types(definitions: &str, nodes: &[&Node], found: &mut Findings) {
    let Some((_, errors)) = definitions.rsplit_once("# Errors") else {
        return;
    };
    for node in nodes {
        let kind = node.kind();
        let version = node
            .get("typeVersion")
            .map(Value::to_string)
            .unwrap_or_default();
        if errors.contains(&format!("Node type '{kind}' not found")) {
            let message = format!("This n8n has no node of type {kind:?}.");
            found.error(node.name(), message, "Find the right type with list_nodes.");
        } else if errors.contains(&format!("Version '{version}' not found for node '{kind}'")) {
            let message = format!("This n8n has no version {version} of {kind:?}.");
            // n8n publishes some versions that it does not have.
            found.warning(node.name(), message, "get_node shows the versions.");
        }
    }
}

/// A node in the form that n8n checks: with the nodes attached to it, and whether it is a tool of
/// another.
fn config(draft: &Draft, node: &Node) -> Value {
    let version = |node: &Node| node.get("typeVersion").cloned().unwrap_or(json!(1));
    let name = node.name();
    let mut config = json!({
        "name": name, "type": node.kind(), "typeVersion": version(node),
        "parameters": node.get("parameters").cloned().unwrap_or(json!({})),
    });
    let all = parse_connections(&draft.connections).unwrap_or_default();
    let (mut attached, mut tools) = (Map::new(), Vec::new());
    for one in &all {
        let Some(kind) = one.kind.strip_prefix("ai_") else {
            continue;
        };
        if one.from == name && kind == "tool" {
            config["isToolNode"] = true.into();
        }
        let Some(sub) = draft.node(&one.from).filter(|_| one.to == name) else {
            continue;
        };
        let sub = json!({"type": sub.kind(), "version": version(sub)});
        match kind {
            "tool" => tools.push(sub),
            "languageModel" => _ = attached.insert("model".into(), sub),
            "document" => _ = attached.insert("documentLoader".into(), sub),
            other => _ = attached.insert(other.into(), sub),
        }
    }
    if !tools.is_empty() {
        attached.insert("tools".into(), tools.into());
    }
    // Without any, n8n does not say which are missing.
    if !attached.is_empty() || node.kind().contains("langchain") {
        config["subnodes"] = attached.into();
    }
    config
}

/// Reads a reply of [`CONFIG_TOOL`], which is stricter than n8n itself. Leaves out parameters that are
/// `known` to be wrong.
fn find_invalid_parameters(
    reply: &Value,
    nodes: &[&Node],
    known: &[Finding],
    found: &mut Findings,
) {
    for result in reply["results"].as_array().into_iter().flatten() {
        let index = result["index"]
            .as_u64()
            .and_then(|index| usize::try_from(index).ok());
        let Some(node) = index.and_then(|index| nodes.get(index)) else {
            continue;
        };
        let name = node.name();
        for error in result["errors"].as_array().into_iter().flatten() {
            let path = error["path"].as_str().unwrap_or_default();
            let message = error["message"].as_str().unwrap_or_default();
            if let Some(kind) = path.strip_prefix("subnodes") {
                find_missing_subnode(name, kind.trim_start_matches('.'), message, found);
                continue;
            }
            let parameter = path.rsplit('.').next().unwrap_or_default();
            // n8n's schemas of older versions ask for an expression in place of each value, and do not know
            // the names that the editor keeps beside ids.
            if is_expression_asked(message) || parameter.starts_with("cachedResult") {
                continue;
            }
            let is_known = |one: &Finding| {
                let mut words = one.message.split(|c: char| !c.is_alphanumeric());
                one.node.as_deref() == Some(name)
                    && words.any(|word| word.eq_ignore_ascii_case(parameter))
            };
            let fix = match path {
                "" => format!("See the parameters of {} with get_node.", node.short_kind()),
                _ if known.iter().any(is_known) => continue,
                path => format!("Set `{path}` as get_node says."),
            };
            found.warning(name, message, &fix);
        }
    }
}

/// True if n8n says of one field, and nothing else, that its value must be an expression.
fn is_expression_asked(message: &str) -> bool {
    let named = message.strip_prefix("Field \"");
    let named = named.and_then(|rest| rest.split_once('"')?.1.strip_prefix(": "));
    let words = named.unwrap_or(message);
    words.starts_with(EXPRESSION_ASKED) && !words.contains("; ") && !words.contains('"')
}

/// Says in the words of a workflow that a node needs another, which n8n calls a sub-node.
fn find_missing_subnode(name: &str, key: &str, message: &str, found: &mut Findings) {
    if key.is_empty() || !(message.contains("missing") || message.contains("got undefined")) {
        return;
    }
    let kind = connection_kind(key);
    let message = format!("No node is connected to it by {kind}.");
    let fix = format!("Add one, and connect it to this node with kind {kind}.");
    found.warning(name, message, &fix);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_n8n_has_told_are_left_out() {
        let node = json!({"name": "A", "type": "n8n-nodes-base.airtable"});
        let node = Node(node.as_object().cloned().unwrap());
        let mut known = Findings::default();
        known.error("A", "Missing required credential: airtableApi.", "");
        known.error(
            "A",
            "Missing or invalid required parameters: \"Application\".",
            "",
        );
        let error = |name: &str, message: &str| json!({"path": format!("parameters.{name}"), "message": message});
        let expression = "Field \"parameters.view\": Must be an n8n expression (={{...}})";
        let wrong_type =
            format!("Field \"fields\" has wrong type. Validation failed: {expression}");
        let errors = [
            error("application", "Required"),
            error("view", expression),
            error("table", "Required"),
            error("fields", &wrong_type),
        ];
        let reply = json!({"results": [{"index": 0, "errors": errors}]});
        let mut found = Findings::default();
        find_invalid_parameters(&reply, &[&node], &known.0, &mut found);
        let found: Vec<_> = found.0.into_iter().filter_map(|one| one.fix).collect();
        let expected =
            ["table", "fields"].map(|name| format!("Set `parameters.{name}` as get_node says."));
        assert_eq!(found, expected);
    }
}
