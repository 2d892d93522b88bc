//! `list_nodes`

use n8n_workflow::node_type::last_part;
use n8n_workflow::trigger::TriggerKind;

use super::call_node_tool;
use super::search::{FoundNode, MAX_FOUND_PER_QUERY, parse, truncated_queries};
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
