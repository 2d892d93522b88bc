//! The specification of a task: what a caller wants done. Pure.

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::ConfirmationPolicy;
use crate::budget::Budget;
use crate::workspace::WorkspaceSpec;

/// Bytes of a task in words.
const MAX_TASK: usize = 200_000;
/// Bytes of a key.
const MAX_KEY: usize = 256;
/// Every file is a request of its own to the agent server.
const MAX_FILES: usize = 50;

/// What a caller wants done.
#[derive(Clone)]
pub(crate) struct TaskSpec {
    pub(crate) task: String,
    pub(crate) workspace: WorkspaceSpec,
    /// Name of the agent profile that works; none for the configured one.
    pub(crate) agent: Option<String>,
    pub(crate) budget: Budget,
    pub(crate) confirm: Option<Confirm>,
    /// The same key is the same task, however often it is asked for.
    pub(crate) key: Option<String>,
    /// When the caller must have heard whether it was started.
    pub(crate) answer_by: Instant,
}

/// Which actions the agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confirm {
    /// Every one.
    Always,
    /// Those that its model thinks risky.
    Risky,
}

impl From<Confirm> for ConfirmationPolicy {
    fn from(confirm: Confirm) -> Self {
        match confirm {
            Confirm::Always => Self::AlwaysConfirm,
            Confirm::Risky => Self::ConfirmRisky,
        }
    }
}

impl TaskSpec {
    /// A specification of `task` and nothing else.
    pub(crate) fn new(task: String, answer_by: Instant) -> Self {
        Self {
            task,
            workspace: WorkspaceSpec::default(),
            agent: None,
            budget: Budget::default(),
            confirm: None,
            key: None,
            answer_by,
        }
    }

    /// The same specification, if it can be carried out.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub(crate) fn checked(self) -> Result<Self, ToolError> {
        let refuse = |reason: String| Err(ToolError::invalid_argument(reason));
        if self.task.trim().is_empty() {
            return refuse("task must say what to do.".into());
        }
        if self.task.len() > MAX_TASK {
            return refuse(format!(
                "task is longer than {MAX_TASK} bytes: put the material into context.content."
            ));
        }
        let usable = |key: &String| !key.trim().is_empty() && key.len() <= MAX_KEY;
        if !self.key.as_ref().is_none_or(usable) {
            return refuse(format!("idempotency_key must have 1 to {MAX_KEY} bytes."));
        }
        if self.workspace.files.len() > MAX_FILES {
            return refuse(format!(
                "context has more than {MAX_FILES} files: use context.repository or workspace."
            ));
        }
        if self.workspace.repository.is_some() && self.workspace.directory.is_some() {
            return refuse(
                "context.repository is put into a directory of the task's own: leave workspace \
                 out, or name a workspace that holds the repository already."
                    .into(),
            );
        }
        Ok(self)
    }

    /// Fingerprint of the task, to tell a repetition from another task with the same key.
    pub(crate) fn fingerprint(&self) -> String {
        let whole = format!(
            "{:?}",
            (
                &self.task,
                &self.workspace.files,
                &self.workspace.repository,
                &self.workspace.directory,
                &self.agent
            )
        );
        Uuid::new_v5(&Uuid::NAMESPACE_OID, whole.as_bytes())
            .simple()
            .to_string()
    }

    /// What the agent is told.
    pub(crate) fn prompt(&self) -> String {
        let mut prompt = self.task.clone();
        if let Some(repository) = &self.workspace.repository {
            let branch = repository.branch.as_deref();
            let branch = branch.map_or(String::new(), |branch| format!(" (branch {branch})"));
            prompt += &format!(
                "\n\nYour working directory is a checkout of {}{branch}.",
                repository.url
            );
        }
        let names: Vec<String> = self
            .workspace
            .files
            .iter()
            .map(|(name, _)| format!("`{}`", name.as_str()))
            .collect();
        match names.as_slice() {
            [] => {}
            [name] => prompt += &format!("\n\nThe file {name} is in your working directory."),
            names => {
                prompt += &format!(
                    "\n\nThe files {} are in your working directory.",
                    names.join(", ")
                );
            }
        }
        prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Directory, FileName, Repository};

    fn spec(task: &str, files: &[(&str, &str)]) -> TaskSpec {
        let file =
            |(name, content): &(&str, &str)| (FileName::new(name).unwrap(), (*content).to_owned());
        let mut spec = TaskSpec::new(task.into(), Instant::now());
        spec.workspace.files = files.iter().map(file).collect();
        spec
    }

    #[test]
    fn the_prompt_names_what_is_there() {
        assert_eq!(spec("Fix it", &[]).prompt(), "Fix it");
        assert_eq!(
            spec("Fix it", &[("a/b.py", "x")]).prompt(),
            "Fix it\n\nThe file `a/b.py` is in your working directory."
        );
        let mut both = spec("Fix it", &[("a", ""), ("b", "")]);
        both.workspace.repository = Repository::new("https://h/r", Some("dev")).ok();
        assert_eq!(
            both.prompt(),
            "Fix it\n\nYour working directory is a checkout of https://h/r (branch dev).\n\nThe \
             files `a`, `b` are in your working directory."
        );
    }

    #[test]
    fn a_fingerprint_is_all_that_matters() {
        let fingerprint = spec("t", &[("a", "b")]).fingerprint();
        assert_eq!(spec("t", &[("a", "b")]).fingerprint(), fingerprint);
        // Another release must not find another one.
        assert_eq!(fingerprint, "739fce7f061e5f0280501f76f64f4adf");
        let mut elsewhere = spec("t", &[("a", "b")]);
        elsewhere.workspace.directory = Directory::new("x").ok();
        for other in [
            spec("t", &[("ab", "")]),
            spec("t", &[("a", "c")]),
            spec("t", &[]),
            spec("t", &[("a", "b"), ("c", "")]),
            elsewhere,
        ] {
            assert_ne!(other.fingerprint(), fingerprint);
        }
    }

    #[test]
    fn specifications_that_cannot_be_carried_out() {
        let files: Vec<(&str, &str)> = vec![("a", ""); 51];
        assert!(spec("t", &files).checked().is_err());
        let mut two_places = spec("t", &[]);
        two_places.workspace.repository = Repository::new("https://h/r", None).ok();
        assert!(two_places.clone().checked().is_ok());
        two_places.workspace.directory = Directory::new("x").ok();
        assert!(two_places.checked().is_err());
    }
}
