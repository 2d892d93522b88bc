//! Converts the connections of a workflow between n8n's form and a flat list.
//!
//! n8n stores them as `{"A": {"main": [[{"node": "B", "type": "main", "index": 0}]]}}`: by name of
//! the node, by kind, by number of the output.

use std::fmt;

use serde_json::{Map, Value, json};

/// The kind that carries data; the others attach models, tools and memories to agents.
pub const MAIN: &str = "main";

/// The highest number of an output or an input; n8n's nodes have some dozens at most. In n8n's form a connection takes
/// a place for each output before its own.
pub const MAX_INDEX: usize = 100;

/// The other kinds that n8n has, without their start `ai_`.
const AI_KINDS: &str = "agent chain document embedding languageModel memory outputParser reranker retriever \
    textSplitter tool vectorStore";

/// True for a kind that n8n has.
pub fn is_kind(kind: &str) -> bool {
    let of_ai = kind.strip_prefix("ai_");
    kind == MAIN || of_ai.is_some_and(|kind| AI_KINDS.split(' ').any(|known| known == kind))
}

/// The kind of the connection for what n8n calls a sub-node.
pub fn connection_kind(key: &str) -> String {
    match key {
        "model" => "ai_languageModel".to_owned(),
        "documentLoader" => "ai_document".to_owned(),
        "tools" => "ai_tool".to_owned(),
        other => format!("ai_{other}"),
    }
}

/// One connection, from an output of a node to an input of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The name of the node that it starts from.
    pub from: String,
    /// The name of the node that it leads to.
    pub to: String,
    /// [`MAIN`], or such as `ai_tool`.
    pub kind: String,
    /// The number of the output, from 0.
    pub output: usize,
    /// The number of the input, from 0.
    pub input: usize,
}

/// Writes `A -> B`, with the output and the kind where those are not the first and [`MAIN`].
impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.from)?;
        if self.output > 0 {
            write!(f, "[{}]", self.output)?;
        }
        match self.kind.as_str() {
            MAIN => write!(f, " -> {}", self.to),
            kind => write!(f, " -{kind}-> {}", self.to),
        }
    }
}

/// Reads n8n's form.
///
/// # Errors
/// The path of the first place that does not have that form.
pub fn parse_connections(all: &Map<String, Value>) -> Result<Vec<Connection>, String> {
    let mut found = Vec::new();
    for (from, kinds) in all {
        let bad = |place: &str| format!("connections.{from}{place}");
        for (kind, outputs) in kinds.as_object().ok_or_else(|| bad(""))? {
            let outputs = outputs.as_array().ok_or_else(|| bad(&format!(".{kind}")))?;
            for (output, targets) in outputs.iter().enumerate() {
                let place = format!(".{kind}[{output}]");
                let targets = match targets {
                    Value::Null => continue,
                    Value::Array(targets) => targets,
                    _ => return Err(bad(&place)),
                };
                for (at, target) in targets.iter().enumerate() {
                    let to = target.get("node").and_then(Value::as_str);
                    let input = target.get("index").and_then(Value::as_u64).unwrap_or(0);
                    found.push(Connection {
                        from: from.clone(),
                        to: to.ok_or_else(|| bad(&format!("{place}[{at}]")))?.to_owned(),
                        kind: kind.clone(),
                        output,
                        input: usize::try_from(input).unwrap_or(usize::MAX),
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The connections in n8n's form, written one by one; none if they cannot be read.
pub fn lines(all: &Map<String, Value>) -> Vec<String> {
    let all = parse_connections(all).unwrap_or_default();
    all.iter().map(Connection::to_string).collect()
}

/// Writes n8n's form.
pub(crate) fn connections_to_json(all: &[Connection]) -> Map<String, Value> {
    let mut by_node = Map::new();
    for connection in all {
        let kinds = by_node
            .entry(connection.from.clone())
            .or_insert_with(|| json!({}));
        let outputs = &mut kinds[connection.kind.as_str()];
        if outputs.is_null() {
            *outputs = json!([]);
        }
        let Some(outputs) = outputs.as_array_mut() else {
            continue;
        };
        while outputs.len() <= connection.output {
            outputs.push(json!([]));
        }
        if let Some(targets) = outputs[connection.output].as_array_mut() {
            targets.push(json!({
                "node": connection.to, "type": connection.kind, "index": connection.input,
            }));
        }
    }
    by_node
}
