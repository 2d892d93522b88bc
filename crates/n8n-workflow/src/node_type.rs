//! Types of nodes, such as `n8n-nodes-base.set`, and n8n's definitions of them, which are TypeScript.

use serde_json::{Map, Value, json};

use crate::connections::connection_kind;

/// Nodes that run code or commands that are written in them.
const CODE_NODES: &str = "code function functionItem pythonFunction aiTransform toolCode \
    toolWorkflowCode executeCommand ssh";
/// The starts of names of sub-nodes, and what they give to the node that uses them.
const PROVIDERS: [(&str, &str); 8] = [
    ("lm", "model"),
    ("memory", "memory"),
    ("outputParser", "outputParser"),
    ("embeddings", "embedding"),
    ("document", "documentLoader"),
    ("textSplitter", "textSplitter"),
    ("retriever", "retriever"),
    ("reranker", "reranker"),
];

/// Nodes with the start of such a name that items pass through.
const PASSED_THROUGH: [&str; 3] = ["memoryManager", "memoryChatRetriever", "toolExecutor"];

/// The last part of a type of nodes: `set` of `n8n-nodes-base.set`.
pub fn last_part(kind: &str) -> &str {
    kind.rsplit('.').next().unwrap_or_default()
}

/// True for types of nodes that run code or commands that are written in them.
pub fn runs_code(kind: &str) -> bool {
    let name = last_part(kind);
    CODE_NODES.split(' ').any(|one| one == name)
}

/// The names of the outputs of a type of nodes; with one output, without a name.
pub fn output_names(kind: &str, version: f64) -> &'static [&'static str] {
    match kind {
        "if" => &["true", "false"],
        "splitInBatches" if version >= 3.0 => &["done", "loop"],
        "splitInBatches" if version >= 2.0 => &["loop", "done"],
        "compareDatasets" => &["in A only", "same", "different", "in B only"],
        "switch" => &["first rule, then one for each rule, then the fallback if it is `extra`"],
        "textClassifier" => &["first category, then one for each"],
        _ => &["main"],
    }
}

/// The kind of the connection by which nodes of this type are attached to another one; `None` if items
/// pass through them.
pub fn attached_by(kind: &str) -> Option<String> {
    let (name, is_ai) = (last_part(kind), kind.contains("langchain"));
    if PASSED_THROUGH.contains(&name) {
        return None;
    }
    let mut providers = PROVIDERS.iter().filter(|_| is_ai);
    let provided = providers.find(|(start, _)| name.starts_with(start));
    let is_tool = name.ends_with("Tool") || (is_ai && name.starts_with("tool"));
    let key = provided.map(|(_, key)| *key);
    key.or(is_tool.then_some("tools")).map(connection_kind)
}

/// Bytes of a line of a comment.
const MAX_COMMENT: usize = 160;
/// The tags of comments that say how a parameter is used.
const SHOWN_TAGS: [&str; 3] = ["@default", "@displayOptions.show", "@displayOptions.hide"];
/// The end of each type: an expression can stand for every value.
const EXPRESSION: &str = " | Expression<";

/// The definition without what every node has: indents, tags of n8n's own tools, and expressions as a type of each
/// parameter.
pub fn compact(definition: &str) -> String {
    let mut shown = String::with_capacity(definition.len());
    let (mut is_comment, mut skips) = (false, false);
    for line in definition.lines().map(str::trim) {
        if !is_comment && !line.starts_with("/**") {
            if !line.is_empty() && !line.starts_with("//") {
                shown.push_str(&without_expressions(line));
                shown.push('\n');
            }
            continue;
        }
        skips &= is_comment;
        is_comment = !line.ends_with("*/");
        let text = line.trim_start_matches("/**").trim_end_matches("*/");
        let text = text.trim().trim_start_matches('*').trim();
        if text.starts_with('@') {
            skips = !SHOWN_TAGS.iter().any(|tag| text.starts_with(tag));
        }
        if !skips && !text.is_empty() {
            shown.push_str("// ");
            shown.push_str(&text[..text.floor_char_boundary(MAX_COMMENT)]);
            shown.push('\n');
        }
    }
    shown
}

fn without_expressions(line: &str) -> String {
    let mut parts = line.split(EXPRESSION);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut depth = 1;
        let end = part.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        });
        shown.push_str(end.map_or(part, |end| &part[end + 1..]));
    }
    shown
}

/// The version that the definition is of, such as `4.2`.
pub fn version_of(definition: &str) -> Option<&str> {
    let mut lines = definition.lines();
    lines.find_map(|line| Some(line.rsplit_once("Node - Version ")?.1.trim()))
}

/// The kinds of connections by which other nodes are attached to the node; with `?` if it needs none.
pub fn attached_to(definition: &str) -> Vec<String> {
    let lines = definition.lines().map(str::trim);
    let block = lines.skip_while(|line| !line.contains("SubnodeConfig {"));
    let members = block.skip(1).take_while(|line| !line.starts_with('}'));
    let members = members.filter(|line| !line.starts_with(['*', '/']));
    let members = members.filter_map(|line| line.split_once(':'));
    let kind = |(name, _): (&str, &str)| match name.strip_suffix('?') {
        Some(name) => format!("{}?", connection_kind(name)),
        None => connection_kind(name),
    };
    let mut kinds: Vec<_> = members.map(kind).collect();
    kinds.dedup();
    kinds
}

/// Parameters that n8n takes, of some common types of nodes.
pub fn example(kind: &str) -> Option<Map<String, Value>> {
    let condition = json!({"combinator": "and",
        "options": {"caseSensitive": true, "leftValue": "", "typeValidation": "strict", "version": 2},
        "conditions": [{"leftValue": "={{ $json.status }}", "rightValue": "open",
            "operator": {"type": "string", "operation": "equals"}}]});
    let known = match last_part(kind) {
        "if" | "filter" => json!({ "conditions": condition }),
        "switch" => json!({"rules": {"values": [{"conditions": condition}]}}),
        "set" => json!({"assignments": {"assignments": [{"id": "1", "name": "total",
            "value": "={{ $json.price * 2 }}", "type": "number"}]}}),
        "scheduleTrigger" => json!({"rule": {"interval": [{"field": "cronExpression",
            "expression": "0 9 * * 1-5"}]}}),
        "httpRequest" => json!({"method": "POST", "url": "https://example.com/api",
            "sendBody": true, "specifyBody": "json", "jsonBody": "={{ $json }}"}),
        "webhook" => json!({"httpMethod": "POST", "path": "orders", "responseMode": "lastNode"}),
        "respondToWebhook" => json!({"respondWith": "json", "responseBody": "={{ $json }}"}),
        "code" => json!({"jsCode": "return $input.all();"}),
        "merge" => json!({"mode": "combine", "combineBy": "combineByPosition"}),
        "agent" => json!({"promptType": "define", "text": "={{ $json.question }}"}),
        _ => return None,
    };
    known.as_object().cloned()
}
