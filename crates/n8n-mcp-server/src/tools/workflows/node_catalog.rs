//! Checks nodes against the nodes that this n8n has: whether they exist, and whether their
//! parameters are valid. Asks the node tools of n8n's built-in MCP server.

use std::collections::{BTreeMap, HashSet};

use n8n_workflow::check::{Finding, Findings, Severity};
use n8n_workflow::connections::{connection_kind, parse_connections};
use n8n_workflow::draft::{Draft, name_of, short_type, type_of};
use n8n_workflow::node_type::NodeDefinition;
use serde_json::{Map, Value, json};

use crate::builtin_mcp::structured;
use crate::service::N8n;

const TYPES_TOOL: &str = "get_node_types";
const CONFIG_TOOL: &str = "validate_node_config";
/// Nodes that n8n checks in one call.
const MAX_NODES_PER_CHECK: usize = 50;
/// Values of the parameter `authentication` for which a node takes no credential.
const WITHOUT_CREDENTIAL: [&str; 3] = ["none", "n8nUserAuth", "n8nOAuth2"];
/// The parameters that distinguish the variants of a node.
const VARIANTS: [&str; 3] = ["resource", "operation", "mode"];

type Node = Map<String, Value>;

/// Checks some nodes of a draft. Leaves out what n8n has `published` about them.
///
/// # Errors
/// Why the server cannot be asked.
pub(super) async fn check(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Node],
    published: Option<&[Finding]>,
) -> Result<Vec<Finding>, String> {
    if !n8n.mcp.is_configured() {
        return Err(
            "enable MCP access in n8n (Settings > MCP access) and set N8N_MCP_TOKEN".into(),
        );
    }
    let call = async |tool, arguments| match n8n.mcp.call(tool, &arguments).await {
        Ok(Some(result)) => Ok(result),
        Ok(None) => Err("the MCP server of this n8n has no node tools: update n8n".to_owned()),
        Err(error) => Err(error.message().to_owned()),
    };
    let mut found = Findings::default();
    if !nodes.is_empty() {
        let types = call(TYPES_TOOL, json!({"nodeIds": type_requests(nodes)})).await?;
        let (reply, text): (Value, _) = (structured(&types).unwrap_or_default(), types.text());
        let definitions = reply["definitions"].as_str().unwrap_or(&text);
        find_unknown_types(definitions, nodes, &mut found);
        match published {
            None => find_missing_credentials(definitions, nodes, &mut found),
            Some(known) => {
                let is_known = |one: &Finding| known.iter().any(|other| other.node == one.node);
                found.0.retain(|one| !is_known(one));
                found
                    .0
                    .iter_mut()
                    .for_each(|one| one.severity = Severity::Warning);
            }
        }
    }
    for batch in nodes.chunks(MAX_NODES_PER_CHECK) {
        let configs: Vec<_> = batch.iter().map(|node| config(draft, node)).collect();
        let result = call(CONFIG_TOOL, json!({ "nodes": configs })).await?;
        let reply: Value = structured(&result).unwrap_or_default();
        find_invalid_parameters(&reply, batch, published.unwrap_or_default(), &mut found);
    }
    let (mut found, mut seen) = (found.0, HashSet::new());
    found.retain(|finding| seen.insert((finding.node.clone(), finding.message.clone())));
    Ok(found)
}

/// Finds credentials that nodes name and n8n does not have; `None` if this n8n lists none.
pub(super) async fn check_credentials(n8n: &N8n, draft: &Draft) -> Option<Vec<Finding>> {
    let listed = n8n.api.all::<Value>(&["credentials"], &[]).await;
    let (rows, true) = listed.ok()? else {
        return None;
    };
    let ids: HashSet<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    let mut found = Findings::default();
    for node in &draft.nodes {
        for (kind, credential) in credentials_of(node).into_iter().flatten() {
            let id = credential.get("id").and_then(Value::as_str);
            if id.is_none_or(|id| !ids.contains(id)) {
                let message = format!(
                    "Its credential ({kind}) does not exist, or is not shared with the user of \
                     this API key."
                );
                found.warning(name_of(node), message, "Choose one that n8n has.");
            }
        }
    }
    Some(found.0)
}

fn credentials_of(node: &Node) -> Option<&Node> {
    node.get("credentials").and_then(Value::as_object)
}

/// One request for each variant of a node, without duplicates.
fn type_requests(nodes: &[&Node]) -> Vec<Value> {
    let mut requests = BTreeMap::new();
    for node in nodes {
        let mut request = json!({"nodeId": type_of(node)});
        if let Some(version @ Value::Number(_)) = node.get("typeVersion") {
            request["version"] = version.to_string().into();
        }
        for key in VARIANTS {
            let value = node
                .get("parameters")
                .and_then(|all| all.get(key)?.as_str());
            if let Some(value) = value.filter(|value| !value.starts_with('=')) {
                request[key] = value.into();
            }
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
        let kind = type_of(node);
        let version = node
            .get("typeVersion")
            .map(Value::to_string)
            .unwrap_or_default();
        if errors.contains(&format!("Node type '{kind}' not found")) {
            let message = format!("This n8n has no node of type {kind:?}.");
            found.error(
                name_of(node),
                message,
                "Find the right type with list_nodes.",
            );
        } else if errors.contains(&format!("Version '{version}' not found for node '{kind}'")) {
            let message = format!("This n8n has no version {version} of {kind:?}.");
            // n8n publishes some versions that it does not have.
            found.warning(name_of(node), message, "get_node shows the versions.");
        }
    }
}

/// Finds nodes without the credential that their type requires.
fn find_missing_credentials(definitions: &str, nodes: &[&Node], found: &mut Findings) {
    for node in nodes {
        if credentials_of(node).is_some_and(|set| !set.is_empty()) {
            continue;
        }
        let heading = format!("{} (", type_of(node));
        let mut sections = definitions.split("\n## ");
        let section =
            sections.find(|section| section.trim_start_matches("## ").starts_with(&heading));
        let definition = section.map(NodeDefinition::parse).unwrap_or_default();
        let given = node
            .get("parameters")
            .and_then(|all| all.get("authentication")?.as_str());
        let properties = definition.properties.iter();
        let mut by_default = properties.filter(|one| one.name == "authentication");
        let authentication = given.or_else(|| by_default.next()?.default.as_deref());
        let takes_none = authentication.is_some_and(|how| WITHOUT_CREDENTIAL.contains(&how));
        if definition.needs_credential && !takes_none {
            let wanted = definition.credentials.join(" or ");
            let message = format!("It has no credential; it takes {wanted}.");
            let fix = "Set `credentials` of the node to {type: {id, name}} of one that n8n has.";
            found.warning(name_of(node), message, fix);
        }
    }
}

/// A node in the form that n8n checks: with the nodes attached to it, and whether it is a tool of
/// another.
fn config(draft: &Draft, node: &Node) -> Value {
    let version = |node: &Node| node.get("typeVersion").cloned().unwrap_or(json!(1));
    let name = name_of(node);
    let mut config = json!({
        "name": name, "type": type_of(node), "typeVersion": version(node),
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
        let sub = json!({"type": type_of(sub), "version": version(sub)});
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
    if !attached.is_empty() || type_of(node).contains("langchain") {
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
        let name = name_of(node);
        for error in result["errors"].as_array().into_iter().flatten() {
            let path = error["path"].as_str().unwrap_or_default();
            let message = error["message"].as_str().unwrap_or_default();
            if let Some(kind) = path.strip_prefix("subnodes") {
                find_missing_subnode(name, kind.trim_start_matches('.'), message, found);
                continue;
            }
            let parameter = path.rsplit('.').next().unwrap_or_default();
            let is_known = |one: &Finding| {
                one.node.as_deref() == Some(name) && one.message.contains(parameter)
            };
            let fix = match path {
                "" => format!("See the parameters of {} with get_node.", short_type(node)),
                _ if known.iter().any(is_known) => continue,
                path => format!("Set `{path}` as get_node says."),
            };
            found.warning(name, message, &fix);
        }
    }
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
