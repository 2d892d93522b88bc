//! Expands `${NAME}` to an environment variable, and `file:PATH` to the content of a file.

use std::path::Path;

use mcp_serve::expand::expand;
pub(super) use mcp_serve::expand::{ExpandError, is_variable};

use super::Secret;

/// The environment variables, and the folder of relative paths.
pub(super) struct Environment<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) folder: &'a Path,
}

impl Environment<'_> {
    /// Expands the variables in `text`.
    pub(super) fn text(&self, text: &str) -> Result<String, ExpandError> {
        expand(text, self.variable)
    }

    /// Expands a text or `file:PATH` to a secret.
    pub(super) fn secret(&self, text: &str) -> Result<Secret, ExpandError> {
        let text = self.text(text)?;
        Ok(match text.strip_prefix("file:") {
            Some(path) => Secret::File(self.folder.join(path)),
            None => Secret::Text(text),
        })
    }
}

/// The text of an error. The `${input:NAME}` of an editor's `mcp.json` has one of its own.
pub(super) fn reason(error: &ExpandError) -> String {
    let input = match error {
        ExpandError::Unknown(reference) => reference.strip_prefix("input:"),
        _ => None,
    };
    match input {
        Some(input) => format!(
            "the gateway cannot ask for the input `{input}`: use an environment variable, ${{NAME}}, or file:PATH"
        ),
        None => error.to_string(),
    }
}
