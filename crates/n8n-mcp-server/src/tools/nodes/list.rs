//! `list_nodes`, and the outline in plain text that n8n's search for nodes returns.

use std::collections::HashSet;

use n8n_workflow::node_type::last_part;
use n8n_workflow::trigger::TriggerKind;

use super::call_node_tool;
use crate::tools::prelude::*;

/// Searches that one call may hold.
const MAX_SEARCHES: usize = 10;

/// Searches the nodes that this n8n has.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListNodes {
    /// Names of services or what the node should do, for example `slack` or `split items`; n8n
    /// returns up to 5 for each.
    search: Vec<String>,
    /// Only nodes of this kind.
    category: Option<Category>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Category {
    /// Starts workflows.
    Trigger,
    /// Does something with items.
    Action,
    /// Models, agents, memories and what they use.
    Ai,
    /// A tool of agents.
    Tool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Nodes {
    nodes: Vec<FoundNode>,
    /// Texts for which n8n may have more nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Tool for ListNodes {
    const NAME: &'static str = "list_nodes";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Nodes;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Nodes, ToolError> {
        let blank = self.search.iter().any(|text| text.trim().is_empty());
        if self.search.is_empty() || self.search.len() > MAX_SEARCHES || blank {
            return Err(ToolError::invalid_argument(format!(
                "`search` must contain 1 to {MAX_SEARCHES} texts that are not blank."
            )));
        }
        let mut queries = self.search.clone();
        if self.category == Some(Category::Trigger) {
            // n8n ranks by name: without the word, actions of the same service come first.
            queries.extend(self.search.iter().map(|text| format!("{text} trigger")));
        }
        let usage = match self.category {
            Some(Category::Tool) => "agentTool",
            _ => "workflow",
        };
        let arguments = json!({"queries": queries, "usage": usage});
        let outline = call_node_tool(n8n, "search_nodes", &arguments).await?;
        let mut nodes = parse(&outline);
        nodes.retain(|node| self.category.is_none_or(|one| one.contains(&node.r#type)));
        let note = note(&truncated_queries(&outline));
        Ok(Nodes { nodes, note })
    }
}

/// The note on truncated results: n8n's search has neither a cursor nor a limit.
fn note(truncated: &[&str]) -> Option<String> {
    let texts = truncated.join(", ");
    (!truncated.is_empty()).then(|| {
        format!(
            "n8n shows no more than {MAX_FOUND_PER_QUERY} nodes for a text, and may have others for {texts}: \
             search with more words for those, such as the operation or `trigger`."
        )
    })
}

impl Category {
    fn contains(self, kind: &str) -> bool {
        let name = last_part(kind);
        let is_trigger = TriggerKind::from_type(kind).is_some();
        let is_tool = name.ends_with("Tool") || name.starts_with("tool");
        let is_ai = kind.contains("langchain");
        match self {
            Self::Trigger => is_trigger,
            Self::Ai => is_ai,
            Self::Tool => is_tool,
            Self::Action => !is_trigger && !is_tool && !is_ai,
        }
    }
}

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
