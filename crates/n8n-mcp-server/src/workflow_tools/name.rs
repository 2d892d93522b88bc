//! Names of tools, from names of workflows.

use super::tool::ToolSpec;
use crate::tools;

/// What a name may hold.
const MAX_NAME_LEN: usize = 64;
/// What of an id tells two workflows apart.
const ID_SUFFIX_LEN: usize = 6;

/// A name for each tool. One that two workflows would have, or that is a tool of the server, gets a
/// part of the workflow's id: so no name depends on the order in which workflows were made.
pub(super) fn names(tools: &[ToolSpec]) -> Vec<String> {
    let built_in: Vec<String> = tools::all()
        .definitions()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    let plain: Vec<String> = tools
        .iter()
        .map(|tool| plain(&tool.title, tool.workflow.as_str()))
        .collect();
    let is_taken = |name: &String| {
        built_in.contains(name) || plain.iter().filter(|other| *other == name).count() > 1
    };
    let named = plain.iter().zip(tools).map(|(name, tool)| {
        if is_taken(name) {
            with_id(name, tool.workflow.as_str())
        } else {
            name.clone()
        }
    });
    named.collect()
}

/// `Hello, World!` is `hello_world`.
fn plain(title: &str, id: &str) -> String {
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
    let part: String = id
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(ID_SUFFIX_LEN)
        .collect();
    let end = name.len().min(MAX_NAME_LEN - ID_SUFFIX_LEN - 1);
    format!("{}_{part}", &name[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::Id;

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
    fn names_are_legal_and_never_taken() {
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
        assert_eq!(
            names[..5],
            [
                "hello_world",
                "send_mail_e5f6g7",
                "send_mail_i9j0k1",
                "list_workflows_m3n4o5",
                "workflow_q7r8s9"
            ]
        );
        assert!(names[5].len() <= MAX_NAME_LEN);
    }
}
