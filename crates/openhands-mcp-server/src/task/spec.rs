//! The specification of a task. Pure.

use mcp_core::tool::ToolError;
use upstream::http::Url;
use uuid::Uuid;

use crate::api::{Confirm, FileName, TaskId};
use crate::budget::Limits;
use crate::git::Repository;
use crate::workspace::{WorkspaceSpec, is_below};

/// Bytes of a task's text.
const MAX_TASK_BYTES: usize = 200_000;
/// Bytes of an idempotency key.
const MAX_KEY_BYTES: usize = 256;
/// Characters of the verify command; it is kept in a tag.
const MAX_VERIFY_CHARS: usize = 200;
/// Every file is a separate request to the agent server.
const MAX_FILES: usize = 50;

/// The specification of a task, from its caller.
#[derive(Clone, Default)]
pub(crate) struct TaskSpec {
    pub(crate) task: String,
    pub(crate) workspace: WorkspaceSpec,
    /// The name of the agent profile; `None` for the configured one.
    pub(crate) agent: Option<String>,
    /// The name of a model's profile; `None` for that of the agent.
    pub(crate) model: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) confirm: Option<Confirm>,
    /// A command that checks the finished task.
    pub(crate) verify: Option<String>,
    /// Gets the result at the end.
    pub(crate) callback: Option<Url>,
    /// The idempotency key: the same key is always the same task.
    pub(crate) key: Option<String>,
    /// The id of a task without a key; `None` for a random one.
    pub(crate) id: Option<TaskId>,
}

impl TaskSpec {
    /// Validates the specification and returns it.
    ///
    /// # Errors
    /// A part of it is invalid; the error says which and what to do.
    pub(crate) fn checked(self) -> Result<Self, ToolError> {
        let Self {
            task,
            workspace,
            key,
            verify,
            ..
        } = &self;
        let is_positive = |cost: f64| !cost.is_nan() && cost > 0.0;
        let is_command =
            |text: &String| !text.trim().is_empty() && text.chars().count() <= MAX_VERIFY_CHARS;
        let is_usable = |key: &String| !key.trim().is_empty() && key.len() <= MAX_KEY_BYTES;
        let reason = if task.trim().is_empty() {
            "task must say what to do.".to_owned()
        } else if task.len() > MAX_TASK_BYTES {
            format!(
                "task is longer than {MAX_TASK_BYTES} bytes: put the material into context.content."
            )
        } else if !self.limits.cost.is_none_or(is_positive) {
            "max_cost must be more than 0.".to_owned()
        } else if self
            .agent
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            "agent must be the name of an agent profile.".to_owned()
        } else if !key.as_ref().is_none_or(is_usable) {
            format!("idempotency_key must have 1 to {MAX_KEY_BYTES} bytes.")
        } else if !verify.as_ref().is_none_or(is_command) {
            format!(
                "verify must be a command of 1 to {MAX_VERIFY_CHARS} characters: put a longer one into \
                 a script."
            )
        } else if workspace.files.len() > MAX_FILES {
            format!("context has more than {MAX_FILES} files: use context.repository or workspace.")
        } else if let Some(name) = clashing_name(&workspace.files) {
            format!(
                "context has {name} twice, or as a file and as a directory: give every file one name."
            )
        } else if workspace.has_worktree && workspace.directory.is_none() {
            "worktree needs workspace, the directory with the repository.".to_owned()
        } else if !workspace.has_worktree && !workspace.worktree_files.is_empty() {
            "worktree_files needs worktree.".to_owned()
        } else if workspace.repository.is_some() && workspace.directory.is_some() {
            "context.repository is put into a directory of the task's own: leave workspace out, or \
             name a workspace that holds the repository already."
                .to_owned()
        } else {
            return Ok(self);
        };
        Err(ToolError::invalid_argument(reason))
    }

    /// A fingerprint of the task. It tells a repetition from another task with the same key.
    pub(crate) fn fingerprint(&self) -> String {
        let limits = (self.limits, self.confirm, &self.verify);
        let ends = (&self.agent, &self.model, &self.callback);
        let whole = format!("{:?}", (&self.task, &self.workspace, limits, ends));
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, whole.as_bytes());
        id.simple().to_string()
    }

    /// The prompt for the agent: the text of the task, and which files it finds.
    pub(crate) fn prompt(&self) -> String {
        let mut prompt = self.task.clone();
        if let Some(Repository { url, branch }) = &self.workspace.repository {
            let branch = branch.as_deref();
            let branch = branch.map_or(String::new(), |branch| format!(" (branch {branch})"));
            prompt += &format!("\n\nYour working directory is a checkout of {url}{branch}.");
        }
        let files = self.workspace.files.iter();
        let names: Vec<String> = files
            .map(|(name, _)| match name.as_str() {
                // The name must not end its own quotes.
                name if name.contains('`') => format!("{name:?}"),
                name => format!("`{name}`"),
            })
            .collect();
        let names_text = names.join(", ");
        match names.len() {
            0 => {}
            1 => prompt += &format!("\n\nThe file {names_text} is in your working directory."),
            _ => prompt += &format!("\n\nThe files {names_text} are in your working directory."),
        }
        prompt
    }
}

/// A name that two files have, or that one has and another has as its directory.
fn clashing_name(files: &[(FileName, Vec<u8>)]) -> Option<&str> {
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let clashes = |at: usize, name: &str| {
        let mut others = names.iter().enumerate();
        others.any(|(other, longer)| at != other && is_below(longer, name))
    };
    let mut found = names.iter().enumerate();
    found.find_map(|(at, name)| clashes(at, name).then_some(*name))
}
