//! Types of nodes, such as `n8n-nodes-base.set`.

mod definition;

use crate::connections::connection_kind;

pub use definition::{NodeDefinition, NodeProperty};

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
const PASSED_THROUGH: [&str; 2] = ["memoryManager", "toolExecutor"];

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
