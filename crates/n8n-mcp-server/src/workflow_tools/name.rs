//! Derives names of tools from names of workflows.

use super::tool::ToolSpec;
use crate::tools;

/// The limit of MCP for the name of a tool.
const MAX_NAME_LEN: usize = 64;
/// Characters of an id that are enough to distinguish two workflows.
const ID_SUFFIX_LEN: usize = 6;

/// A name for each tool. A name that two workflows share, or that a tool of the server has, gets a
/// part of the workflow's id: so no name depends on the order in which workflows were created.
pub(super) fn names(tools: &[ToolSpec]) -> Vec<String> {
    let built_in = tools::all().definitions();
    let ids = tools.iter().map(|tool| tool.workflow.as_str());
    let slugs: Vec<String> = tools
        .iter()
        .zip(ids.clone())
        .map(|(tool, id)| slug(&tool.title, id))
        .collect();
    let is_taken = |name: &String| {
        built_in.iter().any(|tool| tool.name == *name)
            || slugs.iter().filter(|other| *other == name).count() > 1
    };
    let name = |(slug, id): (&String, &str)| match is_taken(slug) {
        true => with_id(slug, id),
        false => slug.clone(),
    };
    slugs.iter().zip(ids).map(name).collect()
}

/// The name for a title: `hello_world` for `Hello, World!`.
fn slug(title: &str, id: &str) -> String {
    let mut name = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.truncate(MAX_NAME_LEN);
    let name = name.trim_end_matches('_');
    if name.is_empty() {
        with_id("workflow", id)
    } else {
        name.to_owned()
    }
}

fn with_id(name: &str, id: &str) -> String {
    let letters = id.chars().filter(char::is_ascii_alphanumeric);
    let part: String = letters.take(ID_SUFFIX_LEN).collect();
    let end = name.len().min(MAX_NAME_LEN - ID_SUFFIX_LEN - 1);
    format!("{}_{part}", &name[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use n8n_workflow::Id;

    fn tool(id: &str, title: &str) -> ToolSpec {
        ToolSpec {
            workflow: Id::try_from(id.to_owned()).unwrap(),
            title: title.into(),
            description: String::new(),
            trigger: String::new(),
            input: json!({}),
        }
    }

    #[test]
    fn names_are_valid_and_unique() {
        let long = "x y".repeat(40);
        let tools = [
            tool("a1b2c3d4", "Hello, World!"),
            tool("e5f6g7h8", "Send mail"),
            tool("i9j0k1l2", "send-MAIL"),
            tool("m3n4o5p6", "List workflows"),
            tool("q7r8s9t0", "日本"),
            tool("u1v2w3x4", &long),
        ];
        let names = names(&tools);
        let expected = "hello_world send_mail_e5f6g7 send_mail_i9j0k1 list_workflows_m3n4o5 \
                        workflow_q7r8s9";
        assert_eq!(names[..5].join(" "), expected);
        assert!(names[5].len() <= MAX_NAME_LEN);
    }
}
