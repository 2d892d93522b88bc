//! `search_tools`: instead of a list that is too long for a model.

use mcp_core::jsonrpc::Members;
use mcp_core::tool::{
    Bounded, Call, Content, Definition, Detail, Effect, Tool, ToolError, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::hub::Hub;

/// Find tools by what they do. Call one with call_tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTools {
    /// Words; a backend's name narrows it to that backend.
    query: String,
    /// Default 8.
    limit: Option<Bounded<1, 50>>,
}

impl Tool for SearchTools {
    const NAME: &'static str = "search_tools";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Hub;
    type Output = ToolResult;

    async fn call(self, hub: &Hub, _: &Call) -> Result<ToolResult, ToolError> {
        let words: Vec<String> = words(&self.query).collect();
        let offering = hub.offering();
        let allowed = offering.lists.tools.iter().map(|(tool, _)| tool);
        let mut found: Vec<(usize, &Definition)> = allowed
            .filter(|tool| tool.is_listed)
            .map(|tool| (score(tool, &words), tool))
            .filter(|(score, _)| *score > 0)
            .collect();
        // Stable: what scores the same stays in the order of the names.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        found.truncate(self.limit.map_or(8, |limit| limit.get() as usize));
        if found.is_empty() {
            let names: Vec<String> = hub.backends().keys().map(ToString::to_string).collect();
            return Ok(ToolResult::text(format!(
                "No tool matches. There are {} tools of these backends: {}.",
                offering.lists.tools.len(),
                names.join(", ")
            )));
        }
        let brief = found.into_iter().map(|(_, tool)| brief(tool));
        let tools: Vec<String> = brief.collect();
        Ok(ToolResult::Content(vec![Content::text(format!(
            "[{}]",
            tools.join(",\n")
        ))]))
    }
}

/// Name, description and arguments: what it takes to call it.
fn brief(tool: &Definition) -> String {
    let full = tool.encode(Detail::Basic);
    let members = Members::read(&full);
    members.map_or(full, |members| members.encode())
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// A word in the name is worth more than one in the description; one that matches whole, more than
/// one that is only part of another.
fn score(tool: &Definition, wanted: &[String]) -> usize {
    let names: Vec<String> = words(&tool.name).collect();
    let description: Vec<String> = words(&tool.description).collect();
    let points = |words: &[String], word: &String, whole: usize, part: usize| {
        if words.contains(word) {
            whole
        } else if words.iter().any(|other| other.contains(word.as_str())) {
            part
        } else {
            0
        }
    };
    wanted
        .iter()
        .map(|word| points(&names, word, 8, 4) + points(&description, word, 2, 1))
        .sum()
}
