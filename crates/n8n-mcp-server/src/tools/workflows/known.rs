//! What this n8n says of nodes: whether it has them, and whether their parameters fit. It is asked
//! through the node tools of its built-in MCP server, which n8n 2 has.

use std::collections::{BTreeMap, HashSet};

use mcp_client::CallToolResult;
use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::service::N8n;
use crate::workflow::check::{Finding, short};
use crate::workflow::{Draft, connections, name_of, type_of};

const TYPES: &str = "get_node_types";
const CONFIG: &str = "validate_node_config";
/// Nodes that n8n checks in one call.
const BATCH: usize = 50;
/// Pages of credentials that are looked through; 250 each.
const PAGES: usize = 4;
/// What tells the variants of a node apart.
const VARIANTS: [&str; 3] = ["resource", "operation", "mode"];

/// What came of asking.
pub(super) enum Known {
    Checked(Vec<Finding>),
    /// This n8n has no such tools.
    NotOffered,
}

/// Checks some nodes of a draft.
///
/// # Errors
/// When the server cannot be asked.
pub(super) async fn check(
    n8n: &N8n,
    draft: &Draft,
    nodes: &[&Map<String, Value>],
) -> Result<Known, ToolError> {
    if nodes.is_empty() {
        return Ok(Known::Checked(Vec::new()));
    }
    let arguments = json!({"nodeIds": distinct(nodes)});
    let Some(types) = n8n.mcp.call(TYPES, &arguments).await? else {
        return Ok(Known::NotOffered);
    };
    let definitions = definitions(&types);
    let mut found = unknown(&definitions, nodes);
    found.extend(bare(&definitions, nodes));
    for batch in nodes.chunks(BATCH) {
        let arguments =
            json!({"nodes": batch.iter().map(|node| config(draft, node)).collect::<Vec<_>>()});
        if let Some(result) = n8n.mcp.call(CONFIG, &arguments).await? {
            found.extend(misfits(&result, batch));
        }
    }
    let mut seen = HashSet::new();
    found.retain(|finding| seen.insert((finding.node.clone(), finding.message.clone())));
    Ok(Known::Checked(found))
}

/// Credentials that nodes name and n8n does not have; `None` where this n8n lists none.
pub(super) async fn credentials(n8n: &N8n, draft: &Draft) -> Option<Vec<Finding>> {
    #[derive(Deserialize)]
    struct Row {
        id: String,
    }
    let (rows, are_all) = n8n.api.all::<Row>(&["credentials"], PAGES).await.ok()?;
    let ids: HashSet<String> = rows.into_iter().map(|row| row.id).collect();
    if !are_all {
        return None;
    }
    let mut found = Vec::new();
    for node in &draft.nodes {
        let named = node.get("credentials").and_then(Value::as_object);
        for (kind, credential) in named.into_iter().flatten() {
            let id = credential.get("id").and_then(Value::as_str);
            if id.is_none_or(|id| !ids.contains(id)) {
                found.push(Finding::error(
                    name_of(node),
                    format!("Its credential ({kind}) does not exist, or is not shared with us."),
                    "Choose one that n8n has.",
                ));
            }
        }
    }
    Some(found)
}

fn distinct(nodes: &[&Map<String, Value>]) -> Vec<Value> {
    let mut requests = BTreeMap::new();
    for node in nodes {
        let mut request = json!({"nodeId": type_of(node)});
        if let Some(version) = node
            .get("typeVersion")
            .filter(|version| version.is_number())
        {
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

fn definitions(result: &CallToolResult) -> String {
    #[derive(Deserialize)]
    struct Reply {
        definitions: String,
    }
    let reply = result.structured_content.as_deref();
    let reply = reply.and_then(|raw| serde_json::from_str::<Reply>(raw.get()).ok());
    reply.map_or_else(|| result.text(), |reply| reply.definitions)
}

/// What n8n lists as errors after the definitions.
fn unknown(definitions: &str, nodes: &[&Map<String, Value>]) -> Vec<Finding> {
    let Some((_, errors)) = definitions.rsplit_once("# Errors") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for node in nodes {
        let kind = type_of(node);
        let version = node
            .get("typeVersion")
            .map(Value::to_string)
            .unwrap_or_default();
        let no_type = format!("Node type '{kind}' not found");
        let no_version = format!("Version '{version}' not found for node '{kind}'");
        if errors.contains(&no_type) {
            found.push(Finding::error(
                name_of(node),
                format!("This n8n has no node of type {kind:?}."),
                "Find the right type with list_nodes.",
            ));
        } else if errors.contains(&no_version) {
            found.push(Finding::error(
                name_of(node),
                format!("This n8n has no version {version} of {kind:?}."),
                "Look the versions up with get_node.",
            ));
        }
    }
    found
}

/// Nodes without the credential that their type asks for.
fn bare(definitions: &str, nodes: &[&Map<String, Value>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for node in nodes {
        let set = node.get("credentials").and_then(Value::as_object);
        if set.is_some_and(|set| !set.is_empty()) {
            continue;
        }
        let heading = format!("## {} (", type_of(node));
        let section = definitions.split("\n## ").find(|section| {
            let heading = heading.trim_start_matches("## ");
            section.trim_start_matches("## ").starts_with(heading)
        });
        let wanted = section.map(asked_for).unwrap_or_default();
        if !wanted.is_empty() {
            found.push(Finding::error(
                name_of(node),
                format!("It has no credential; it takes {}.", wanted.join(" or ")),
                "Set `credentials` of the node to {type: {id, name}} of one that n8n has.",
            ));
        }
    }
    found
}

/// The types of credentials of which a definition demands one.
fn asked_for(definition: &str) -> Vec<&str> {
    let Some((_, list)) = definition.split_once("interface Credentials {") else {
        return Vec::new();
    };
    let list = list.split('}').next().unwrap_or_default();
    let names = list.lines().filter_map(|line| line.trim().split_once(':'));
    let names = names.map(|(name, _)| name).collect::<Vec<_>>();
    let optional = names.iter().any(|name| name.ends_with('?'));
    if optional { Vec::new() } else { names }
}

/// A node as n8n checks it: with what hangs on it, and whether it hangs on another.
fn config(draft: &Draft, node: &Map<String, Value>) -> Value {
    let name = name_of(node);
    let mut config = json!({
        "name": name, "type": type_of(node),
        "typeVersion": node.get("typeVersion").cloned().unwrap_or(json!(1)),
        "parameters": node.get("parameters").cloned().unwrap_or(json!({})),
    });
    let all = connections(&draft.connections).unwrap_or_default();
    let mut below = Map::new();
    for one in &all {
        let Some(kind) = one.kind.strip_prefix("ai_") else {
            continue;
        };
        if one.from == name && kind == "tool" {
            config["isToolNode"] = true.into();
        }
        if one.to != name {
            continue;
        }
        let Some(sub) = draft.node(&one.from) else {
            continue;
        };
        let version = sub.get("typeVersion").cloned().unwrap_or(json!(1));
        let sub = json!({"type": type_of(sub), "version": version});
        match kind {
            "tool" => {
                let tools = below.entry("tools").or_insert_with(|| json!([]));
                if let Some(tools) = tools.as_array_mut() {
                    tools.push(sub);
                }
            }
            "languageModel" => _ = below.insert("model".into(), sub),
            other => _ = below.insert(other.into(), sub),
        }
    }
    if !below.is_empty() {
        config["subnodes"] = below.into();
    }
    config
}

fn misfits(result: &CallToolResult, nodes: &[&Map<String, Value>]) -> Vec<Finding> {
    #[derive(Deserialize)]
    struct Fault {
        path: String,
        message: String,
    }
    #[derive(Deserialize)]
    struct Row {
        index: usize,
        #[serde(default)]
        errors: Vec<Fault>,
    }
    #[derive(Deserialize)]
    struct Reply {
        results: Vec<Row>,
    }
    let reply = result.structured_content.as_deref();
    let reply = reply.and_then(|raw| serde_json::from_str::<Reply>(raw.get()).ok());
    let mut found = Vec::new();
    for row in reply.into_iter().flat_map(|reply| reply.results) {
        let Some(node) = nodes.get(row.index) else {
            continue;
        };
        for fault in row.errors {
            let fix = match fault.path.as_str() {
                "" => format!("See the parameters of {} with get_node.", short(node)),
                path => format!("Set `{path}` as get_node says."),
            };
            found.push(Finding::error(name_of(node), fault.message, &fix));
        }
    }
    found
}
