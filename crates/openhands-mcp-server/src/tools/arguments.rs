//! Arguments that several tools share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::{Bounded, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::FileName;
use crate::budget::BudgetRequest;
use crate::callback::CallbackUrl;
use crate::git::Repository;
use crate::task::{Confirm, TaskSpec};
use crate::workspace::{Directory, FileContent};

use super::wait::WaitFor;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    /// Relative path of one file, such as src/app.py.
    file: Option<FileName>,
    /// Its content.
    content: Option<String>,
    /// Of the content; default text.
    encoding: Option<Encoding>,
    /// Several files.
    #[serde(default)]
    files: Vec<ContextFile>,
    /// Git URL to check out.
    repository: Option<String>,
    /// Its branch.
    branch: Option<String>,
    /// Commits of all branches to fetch, 0 for all; default only the newest of the branch.
    depth: Option<Bounded<0, 1_000_000>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ContextFile {
    /// Relative path.
    file: FileName,
    /// Its content.
    content: String,
    /// Default text.
    encoding: Option<Encoding>,
}

/// The encoding of a file's content.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    Base64,
}

impl ContextFile {
    /// The content in bytes.
    fn decoded(self) -> Result<(FileName, FileContent), ToolError> {
        let content = match self.encoding {
            None => self.content.into_bytes(),
            Some(Encoding::Base64) => {
                let packed: String = self.content.split_ascii_whitespace().collect();
                STANDARD.decode(packed).map_err(|_| {
                    let name = self.file.as_str();
                    ToolError::invalid_argument(format!(
                        "context: the content of {name} is not valid base64. Leave encoding out \
                         for text."
                    ))
                })?
            }
        };
        Ok((self.file, FileContent(content)))
    }
}

/// The arguments that describe one task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "")]
pub(super) struct TaskArguments {
    /// The task.
    pub(super) task: String,
    /// As in run_task.
    // Its schema is there.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(super) context: Option<Context>,
    /// Directory to work in.
    pub(super) workspace: Option<String>,
    /// As in run_task.
    pub(super) worktree: Option<bool>,
    /// As in run_task.
    pub(super) idempotency_key: Option<String>,
    /// As in run_task.
    pub(super) verify: Option<String>,
}

/// The agent, budget and permissions for the tasks of a call.
pub(super) struct Limits {
    pub(super) agent: Option<String>,
    pub(super) model: Option<String>,
    pub(super) max_iterations: Option<Bounded<1, 100_000>>,
    pub(super) max_seconds: Option<Bounded<1, 604_800>>,
    pub(super) max_cost: Option<f64>,
    pub(super) confirm: Option<Confirm>,
    pub(super) callback: Option<CallbackUrl>,
}

impl Context {
    fn apply(self, spec: &mut TaskSpec) -> Result<(), ToolError> {
        let workspace = &mut spec.workspace;
        match (self.file, self.content) {
            (Some(file), Some(content)) => {
                let encoding = self.encoding;
                let file = ContextFile {
                    file,
                    content,
                    encoding,
                };
                workspace.files.push(file.decoded()?);
            }
            (None, None) if self.encoding.is_some() => {
                return refuse("context.encoding needs context.content.");
            }
            (None, None) => {}
            (Some(_), None) => {
                return refuse("context.content is missing: pass the content of the file.");
            }
            (None, Some(_)) => {
                return refuse(
                    "context.file is missing: pass the name of the file for the content.",
                );
            }
        }
        for file in self.files {
            workspace.files.push(file.decoded()?);
        }
        match (&self.repository, &self.branch) {
            (Some(url), branch) => {
                let repository = Repository::new(url, branch.as_deref());
                workspace.repository = Some(repository.map_err(ToolError::invalid_argument)?);
            }
            (None, Some(_)) => return refuse("context.branch needs context.repository."),
            (None, None) if self.depth.is_some() => {
                return refuse("context.depth needs context.repository.");
            }
            (None, None) => {}
        }
        workspace.depth = self.depth.map(Bounded::get);
        Ok(())
    }
}

impl TaskArguments {
    /// The specification of the task.
    pub(super) fn spec(self, limits: &Limits, wait: WaitFor) -> Result<TaskSpec, ToolError> {
        let mut spec = TaskSpec::new(self.task, wait.answer_by);
        spec.slot_by = wait.slot_by();
        let directory = self.workspace.as_deref().map(Directory::new).transpose();
        spec.workspace.directory = directory
            .map_err(|reason| ToolError::invalid_argument(format!("workspace {reason}.")))?;
        spec.workspace.has_worktree = self.worktree.unwrap_or_default();
        spec.key = self.idempotency_key;
        spec.verify = self.verify;
        if let Some(context) = self.context {
            context.apply(&mut spec)?;
        }
        limits.apply(&mut spec)?;
        spec.checked()
    }
}

impl Limits {
    fn apply(&self, spec: &mut TaskSpec) -> Result<(), ToolError> {
        if self
            .max_cost
            .is_some_and(|cost| cost.is_nan() || cost <= 0.0)
        {
            return refuse("max_cost must be more than 0.");
        }
        if self
            .agent
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return refuse("agent must be the name of an agent profile.");
        }
        spec.agent.clone_from(&self.agent);
        spec.model.clone_from(&self.model);
        spec.confirm = self.confirm;
        spec.callback.clone_from(&self.callback);
        spec.budget = BudgetRequest {
            iterations: self.max_iterations.map(Bounded::get),
            seconds: self.max_seconds.map(|seconds| seconds.get().into()),
            cost: self.max_cost,
        };
        Ok(())
    }
}

fn refuse(reason: &str) -> Result<(), ToolError> {
    Err(ToolError::invalid_argument(reason))
}
