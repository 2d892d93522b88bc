//! Parses the results of n8n's search for nodes: an outline in plain text.

use std::collections::HashSet;

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

/// The most nodes that n8n returns for one text.
pub(super) const MAX_FOUND_PER_QUERY: usize = 5;

/// Indents of the parts of the outline.
const FIELD: usize = 2;
const GROUP: usize = 4;
const MEMBER: usize = 6;
const OPERATION: usize = 12;

/// The nodes of the outline, without duplicates.
pub(super) fn parse(outline: &str) -> Vec<FoundNode> {
    let mut nodes: Vec<FoundNode> = Vec::new();
    let mut group = "";
    for line in outline.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let bullet = text.strip_prefix("- ");
        if let (0, Some(kind)) = (indent, bullet) {
            group = "";
            nodes.push(FoundNode {
                // Triggers have a mark after their type.
                r#type: kind.split(' ').next().unwrap_or_default().to_owned(),
                ..FoundNode::default()
            });
            continue;
        }
        let Some(node) = nodes.last_mut() else {
            continue;
        };
        let member = bullet.and_then(|text| text.split(':').next());
        match (indent, text.split_once(": "), member) {
            (FIELD, Some(("Display Name", value)), _) => node.name = value.to_owned(),
            (FIELD, Some(("Version", value)), _) => node.version = value.to_owned(),
            (FIELD, Some(("Description", value)), _) => node.description = value.to_owned(),
            (FIELD, ..) => group = "",
            (GROUP, ..) => group = text.trim_end_matches(':'),
            (MEMBER, _, Some(member)) => match group {
                // Nodes without resources have operations alone.
                "resource" | "operation" => node.operations.push(member.to_owned()),
                "mode" => node.modes.push(member.to_owned()),
                _ => {}
            },
            (OPERATION, _, Some(operation)) => {
                if let Some(resource) = node.operations.last_mut() {
                    resource.push_str(if resource.contains(':') { ", " } else { ": " });
                    resource.push_str(operation);
                }
            }
            _ => {}
        }
    }
    let mut seen = HashSet::new();
    nodes.retain(|node| seen.insert(node.r#type.clone()));
    nodes
}

/// The quoted texts for which the outline has as many nodes as n8n ever returns.
pub(super) fn truncated_queries(outline: &str) -> Vec<&str> {
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
    fn outline_is_parsed() {
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
        assert!(truncated_queries(OUTLINE).is_empty());
        let full = "## \"a b\"\nFound 5 nodes (+ 2 related):\n\n## \"c\"\nFound 1 nodes:\n";
        assert_eq!(truncated_queries(full), ["\"a b\""]);
        assert!(parse("No nodes found. Try a different search term.").is_empty());
    }
}
