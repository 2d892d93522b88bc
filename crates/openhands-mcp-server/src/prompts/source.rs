//! Where the code is that a task is about.

use mcp_core::tool::ToolError;
use serde_json::json;

use crate::workspace::Repository;

/// A line fence that no quoted text is likely to hold; code often holds the usual one.
pub(super) const FENCE: &str = "~~~~~~~~";

/// What a person typed; hosts send what was left empty as an empty text.
pub(super) fn given(argument: Option<String>) -> Option<String> {
    argument
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// How the agent gets at the code.
///
/// # Errors
/// The repository cannot be checked out: says why.
pub(super) fn source(
    repository: Option<String>,
    branch: Option<String>,
) -> Result<String, ToolError> {
    let branch = given(branch);
    let Some(url) = given(repository) else {
        let branch = branch.map_or(String::new(), |branch| {
            format!(" It is on the branch {branch}.")
        });
        return Ok(format!(
            "Take the code from what we spoke of: `context.repository` for a Git URL, `workspace` \
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
    fn a_repository_is_passed_on_as_run_task_takes_it() {
        let repository = || Some("https://example.com/shop.git".to_owned());
        assert_eq!(
            source(repository(), Some("dev".into())).unwrap(),
            "Pass this as its `context`: \
             `{\"repository\":\"https://example.com/shop.git\",\"branch\":\"dev\"}`."
        );
        assert!(
            source(repository(), Some(" ".into()))
                .unwrap()
                .ends_with(".git\"}`.")
        );
        assert!(
            source(Some(String::new()), None)
                .unwrap()
                .contains("Ask me")
        );
        assert!(source(Some("file:///etc".into()), None).is_err());
    }
}
