//! Arguments that several tools share.

use mcp_core::tool::{Bounded, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::budget::Budget;
use crate::task::{Confirm, TaskSpec};
use crate::workspace::{Directory, FileName, Repository};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    /// Relative path of one file, such as src/app.py.
    file: Option<FileName>,
    /// Its content.
    content: Option<String>,
    /// Several files.
    #[serde(default)]
    files: Vec<File>,
    /// Git URL to check out.
    repository: Option<String>,
    /// Its branch.
    branch: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    /// Relative path.
    file: FileName,
    /// Its content.
    content: String,
}

impl Context {
    /// Adds it to a specification.
    pub(super) fn apply(self, spec: &mut TaskSpec) -> Result<(), ToolError> {
        match (self.file, self.content) {
            (Some(file), Some(content)) => spec.workspace.files.push((file, content)),
            (None, None) => {}
            (Some(_), None) => return refuse("context.content is missing: what is in the file?"),
            (None, Some(_)) => {
                return refuse("context.file is missing: where is the content to go?");
            }
        }
        let files = self.files.into_iter();
        let files = files.map(|file| (file.file, file.content));
        spec.workspace.files.extend(files);
        match (&self.repository, &self.branch) {
            (Some(url), branch) => {
                let repository = Repository::new(url, branch.as_deref());
                spec.workspace.repository = Some(repository.map_err(ToolError::invalid_argument)?);
            }
            (None, Some(_)) => return refuse("context.branch needs context.repository."),
            (None, None) => {}
        }
        Ok(())
    }
}

fn refuse(reason: &str) -> Result<(), ToolError> {
    Err(ToolError::invalid_argument(reason))
}

/// The limits that a call sets to its tasks.
pub(super) struct Limits {
    pub(super) agent: Option<String>,
    pub(super) max_iterations: Option<Bounded<1, 100_000>>,
    pub(super) max_seconds: Option<Bounded<1, 604_800>>,
    pub(super) max_cost: Option<f64>,
    pub(super) confirm: Option<Confirm>,
}

impl Limits {
    /// Adds them to a specification.
    pub(super) fn apply(&self, spec: &mut TaskSpec) -> Result<(), ToolError> {
        if self
            .max_cost
            .is_some_and(|cost| cost.is_nan() || cost <= 0.0)
        {
            return refuse("max_cost must be more than 0.");
        }
        if self
            .agent
            .as_ref()
            .is_some_and(|agent| agent.trim().is_empty())
        {
            return refuse("agent must be the name of an agent profile.");
        }
        spec.agent.clone_from(&self.agent);
        spec.confirm = self.confirm;
        spec.budget = Budget {
            iterations: self.max_iterations.map(Bounded::get),
            seconds: self.max_seconds.map(|seconds| seconds.get().into()),
            cost: self.max_cost,
        };
        Ok(())
    }
}

/// The directory that a caller names.
pub(super) fn directory(name: Option<&str>) -> Result<Option<Directory>, ToolError> {
    let directory = name.map(Directory::new).transpose();
    directory.map_err(|reason| ToolError::invalid_argument(format!("workspace {reason}.")))
}
