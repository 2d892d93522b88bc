//! Checks nodes against the nodes that this n8n has: whether they exist, and whether their
//! parameters are valid. Asks the node tools of n8n's built-in MCP server, which n8n 2 has.

use std::collections::{BTreeMap, HashSet};

use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};

use crate::builtin_mcp::structured;
use crate::service::N8n;
use crate::workflow::check::{Finding, Findings, short_type};
use crate::workflow::{Draft, name_of, parse_connections, type_of};

const TYPES_TOOL: &str = "get_node_types";
const CONFIG_TOOL: &str = "validate_node_config";
/// Nodes that n8n checks in one call.
const MAX_NODES_PER_CHECK: usize = 50;
/// Pages of credentials that are read; 250 each.
const MAX_CREDENTIAL_PAGES: usize = 4;
/// The parameters that distinguish the variants of a node.
const VARIANTS: [&str; 3] = ["resource", "operation", "mode"];

type Node = Map<String, Value>;

/// Checks some nodes of a draft; `None` if this n8n has no node tools.
///
/// # Errors
/// When the server cannot be asked.
pub(super) async fn check(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Node],
) -> Result<Option<Vec<Finding>>, ToolError> {
    if nodes.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let arguments = json!({"nodeIds": type_requests(nodes)});
    let Some(types) = n8n.mcp.call(TYPES_TOOL, &arguments).await? else {
        return Ok(None);
    };
    let (reply, text): (Value, _) = (structured(&types).unwrap_or_default(), types.text());
    let definitions = reply["definitions"].as_str().unwrap_or(&text);
    let mut found = Findings::default();
    find_unknown_types(definitions, nodes, &mut found);
    find_missing_credentials(definitions, nodes, &mut found);
    for batch in nodes.chunks(MAX_NODES_PER_CHECK) {
        let configs: Vec<_> = batch.iter().map(|node| config(draft, node)).collect();
        let arguments = json!({ "nodes": configs });
        if let Some(result) = n8n.mcp.call(CONFIG_TOOL, &arguments).await? {
            let reply: Value = structured(&result).unwrap_or_default();
            find_invalid_parameters(&reply, batch, &mut found);
        }
    }
    let (mut found, mut seen) = (found.0, HashSet::new());
    found.retain(|finding| seen.insert((finding.node.clone(), finding.message.clone())));
    Ok(Some(found))
}

/// Finds credentials that nodes name and n8n does not have; `None` if this n8n lists none.
pub(super) async fn check_credentials(n8n: &N8n, draft: &Draft) -> Option<Vec<Finding>> {
    let listed = n8n
        .api
        .all::<Value>(&["credentials"], MAX_CREDENTIAL_PAGES)
        .await;
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
                found.error(name_of(node), message, "Choose one that n8n has.");
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
            found.error(name_of(node), message, "get_node shows the versions.");
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
        let wanted = section.map(required_credentials).unwrap_or_default();
        if !wanted.is_empty() {
            let message = format!("It has no credential; it takes {}.", wanted.join(" or "));
            let fix = "Set `credentials` of the node to {type: {id, name}} of one that n8n has.";
            found.error(name_of(node), message, fix);
        }
    }
}

/// The types of credentials of which a definition requires one.
fn required_credentials(definition: &str) -> Vec<&str> {
    let Some((_, list)) = definition.split_once("interface Credentials {") else {
        return Vec::new();
    };
    let list = list.split('}').next().unwrap_or_default();
    let names = list.lines().filter_map(|line| line.trim().split_once(':'));
    let names = names.map(|(name, _)| name).collect::<Vec<_>>();
    let optional = names.iter().any(|name| name.ends_with('?'));
    if optional { Vec::new() } else { names }
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
            other => _ = attached.insert(other.into(), sub),
        }
    }
    if !tools.is_empty() {
        attached.insert("tools".into(), tools.into());
    }
    if !attached.is_empty() {
        config["subnodes"] = attached.into();
    }
    config
}

/// Finds the errors in a reply of [`CONFIG_TOOL`].
fn find_invalid_parameters(reply: &Value, nodes: &[&Node], found: &mut Findings) {
    for result in reply["results"].as_array().into_iter().flatten() {
        let index = result["index"]
            .as_u64()
            .and_then(|index| usize::try_from(index).ok());
        let Some(node) = index.and_then(|index| nodes.get(index)) else {
            continue;
        };
        for error in result["errors"].as_array().into_iter().flatten() {
            let fix = match error["path"].as_str() {
                None | Some("") => {
                    format!("See the parameters of {} with get_node.", short_type(node))
                }
                Some(path) => format!("Set `{path}` as get_node says."),
            };
            let message = error["message"].as_str().unwrap_or_default();
            found.error(name_of(node), message, &fix);
        }
    }
}
