//! The sentence of a prompt that says where the code of a task is.

use mcp_core::tool::ToolError;
use serde_json::json;

use crate::git::Repository;

/// The fence around quoted text. It is unlikely to occur in the text, unlike the usual one.
pub(super) const FENCE: &str = "~~~~~~~~";

/// The argument, unless it is blank: hosts send an omitted argument as an empty text.
pub(super) fn non_blank(argument: Option<String>) -> Option<String> {
    argument
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Says how the agent gets the code.
///
/// # Errors
/// The repository cannot be checked out.
pub(super) fn code_source(
    repository: Option<String>,
    branch: Option<String>,
) -> Result<String, ToolError> {
    let branch = non_blank(branch);
    let Some(url) = non_blank(repository) else {
        let branch = branch.map_or(String::new(), |branch| {
            format!(" It is on the branch {branch}.")
        });
        return Ok(format!(
            "Take the code from our conversation: `context.repository` for a Git URL, `workspace` \
             for a directory on the agent's machine, `context.files` for a few files.{branch} Ask \
             me if you do not know which."
        ));
    };
    let checked = Repository::new(&url, branch.as_deref());
    let checked = checked.map_err(ToolError::invalid_argument)?;
    let branch = checked.branch.map_or(String::new(), |branch| {
        format!(",\"branch\":{}", json!(branch))
    });
    let context = format!("{{\"repository\":{}{branch}}}", json!(checked.url));
    Ok(format!("Pass this as its `context`: `{context}`."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_is_given_as_run_task_takes_it() {
        let repository = || Some("https://example.com/shop.git".to_owned());
        assert_eq!(
            code_source(repository(), Some("dev".into())).unwrap(),
            "Pass this as its `context`: \
             `{\"repository\":\"https://example.com/shop.git\",\"branch\":\"dev\"}`."
        );
        let blank_branch = code_source(repository(), Some(" ".into())).unwrap();
        assert!(blank_branch.ends_with(".git\"}`."));
        let unknown = code_source(Some(String::new()), None).unwrap();
        assert!(unknown.contains("Ask me"));
        assert!(code_source(Some("file:///etc".into()), None).is_err());
    }
}
