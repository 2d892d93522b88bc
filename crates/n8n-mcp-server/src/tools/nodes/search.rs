//! What n8n's search for nodes puts out: an outline in plain text.

use schemars::JsonSchema;
use serde::Serialize;

/// A node that can be used in workflows.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct FoundNode {
    /// For `type` in a workflow and for get_node.
    pub(super) r#type: String,
    pub(super) name: String,
    /// The newest.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) description: String,
    /// By resource, for example `channel: archive, create`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) operations: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) modes: Vec<String>,
}

/// As many nodes n8n shows for one text.
pub(super) const MAX_FOUND_PER_QUERY: usize = 5;

/// Columns at which the outline has its parts.
const FIELD: usize = 2;
const GROUP: usize = 4;
const MEMBER: usize = 6;
const OPERATION: usize = 12;

/// The nodes of the outline, each once.
pub(super) fn parse(outline: &str) -> Vec<FoundNode> {
    let mut nodes: Vec<FoundNode> = Vec::new();
    let mut node: Option<FoundNode> = None;
    let mut group = "";
    for line in outline.lines() {
        let text = line.trim_start();
        let column = line.len() - text.len();
        if let (0, Some(kind)) = (column, text.strip_prefix("- ")) {
            keep(&mut nodes, node.take());
            group = "";
            node = Some(FoundNode {
                // Triggers are marked behind their type.
                r#type: kind.split(' ').next().unwrap_or_default().to_owned(),
                ..FoundNode::default()
            });
            continue;
        }
        let Some(node) = &mut node else { continue };
        match (column, text.split_once(": ")) {
            (FIELD, Some(("Display Name", value))) => node.name = value.to_owned(),
            (FIELD, Some(("Version", value))) => node.version = value.to_owned(),
            (FIELD, Some(("Description", value))) => node.description = value.to_owned(),
            (FIELD, _) => group = "",
            (GROUP, _) => group = text.trim_end_matches(':'),
            (MEMBER, _) => {
                let Some(member) = text.strip_prefix("- ") else {
                    continue;
                };
                let member = member.split(':').next().unwrap_or_default();
                match group {
                    "resource" => node.operations.push(member.to_owned()),
                    "mode" => node.modes.push(member.to_owned()),
                    // Without resources the operations stand alone.
                    "operation" => node.operations.push(member.to_owned()),
                    _ => {}
                }
            }
            (OPERATION, _) => {
                if let (Some(operation), Some(of)) =
                    (text.strip_prefix("- "), node.operations.last_mut())
                {
                    of.push_str(if of.contains(':') { ", " } else { ": " });
                    of.push_str(operation.split(':').next().unwrap_or_default());
                }
            }
            _ => {}
        }
    }
    keep(&mut nodes, node);
    nodes
}

/// The texts, in quotes, for which the outline has as many nodes as n8n ever shows.
pub(super) fn cut_off(outline: &str) -> Vec<&str> {
    let mut texts = Vec::new();
    let mut text = "";
    for line in outline.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            text = heading;
        } else if let Some(count) = line.strip_prefix("Found ") {
            let count = count.split(' ').next().unwrap_or_default();
            if count
                .parse()
                .is_ok_and(|count: usize| count >= MAX_FOUND_PER_QUERY)
            {
                texts.push(text);
            }
        }
    }
    texts
}

fn keep(nodes: &mut Vec<FoundNode>, node: Option<FoundNode>) {
    if let Some(node) = node
        && nodes.iter().all(|other| other.r#type != node.r#type)
    {
        nodes.push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTLINE: &str = r#"## "slack"
Found 2 nodes:

- n8n-nodes-base.slack
  Display Name: Slack
  Version: 2.7
  Description: Consume Slack API
  @relatedNodes
    - n8n-nodes-base.httpRequest: "Use this"
  Discriminators:
    resource:
      - channel:
          operations:
            - archive
              Archives a conversation
            - create
      - file:
          operations:
            - get

  Use get_node_types with discriminators:
    get_node_types({ nodeIds: [] })

- n8n-nodes-base.set
  Display Name: Edit Fields (Set)
  Version: 3.5
  Discriminators:
    mode:
      - manual: "Manual Mapping"
        Edit item fields one by one
      - raw: "JSON"

---
- n8n-nodes-base.slackTrigger [TRIGGER]
- n8n-nodes-base.slack
  Display Name: Slack
"#;

    #[test]
    fn the_outline_becomes_rows() {
        let found = parse(OUTLINE);
        assert_eq!(found.len(), 3);
        assert_eq!(found[2].r#type, "n8n-nodes-base.slackTrigger");
        assert_eq!(found[0].name, "Slack");
        assert_eq!(found[0].version, "2.7");
        assert_eq!(
            found[0].operations,
            ["channel: archive, create", "file: get"]
        );
        assert_eq!(found[1].modes, ["manual", "raw"]);
        assert!(cut_off(OUTLINE).is_empty());
        let full = "## \"a b\"\nFound 5 nodes (+ 2 related):\n\n## \"c\"\nFound 1 nodes:\n";
        assert_eq!(cut_off(full), ["\"a b\""]);
        assert!(parse("No nodes found. Try a different search term.").is_empty());
    }
}
