//! Types of nodes, such as `n8n-nodes-base.set`.

mod definition;

pub use definition::{NodeDefinition, NodeProperty};

/// Nodes that run code or commands that are written in them.
const CODE_NODES: [&str; 6] = [
    "code",
    "function",
    "functionItem",
    "executeCommand",
    "ssh",
    "toolCode",
];

/// The last part of a type of nodes: `set` of `n8n-nodes-base.set`.
pub fn last_part(kind: &str) -> &str {
    kind.rsplit('.').next().unwrap_or_default()
}

/// True for types of nodes that run code or commands that are written in them.
pub fn runs_code(kind: &str) -> bool {
    CODE_NODES.contains(&last_part(kind))
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
