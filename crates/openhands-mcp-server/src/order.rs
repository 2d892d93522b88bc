//! What a caller wants done. Pure.

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

use crate::file_name::FileName;
use crate::repository::Repository;
use crate::workspace::Directory;

/// Bytes of a task in words.
const MAX_TASK: usize = 200_000;
/// Bytes of a key.
const MAX_KEY: usize = 256;
/// Every file is a request of its own to the agent server.
const MAX_FILES: usize = 50;

/// What a caller wants done.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) task: String,
    /// Files to work on and their content.
    pub(crate) files: Vec<(FileName, String)>,
    pub(crate) repository: Option<Repository>,
    /// Where to work; none for a directory of its own.
    pub(crate) workspace: Option<Directory>,
    /// Name of the agent profile that works; none for the configured one.
    pub(crate) agent: Option<String>,
    pub(crate) budget: Budget,
    pub(crate) confirm: Option<Confirm>,
    /// The same key is the same task, however often it is ordered.
    pub(crate) key: Option<String>,
    /// When the caller must have heard whether it was started.
    pub(crate) answer_by: Instant,
}

/// What a task may use up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Budget {
    /// Steps of one run.
    pub(crate) iterations: Option<u32>,
    /// Seconds of one run.
    pub(crate) seconds: Option<u64>,
    /// US dollars of the whole task.
    pub(crate) cost: Option<f64>,
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

impl Order {
    /// An order for `task` and nothing else.
    pub(crate) fn new(task: String, answer_by: Instant) -> Self {
        Self {
            task,
            files: Vec::new(),
            repository: None,
            workspace: None,
            agent: None,
            budget: Budget::default(),
            confirm: None,
            key: None,
            answer_by,
        }
    }

    /// The same order, if it can be carried out.
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
        if self.files.len() > MAX_FILES {
            return refuse(format!(
                "context has more than {MAX_FILES} files: use context.repository or workspace."
            ));
        }
        if self.repository.is_some() && self.workspace.is_some() {
            return refuse(
                "context.repository is put into a directory of the task's own: leave workspace \
                 out, or name a workspace that holds the repository already."
                    .into(),
            );
        }
        Ok(self)
    }

    /// Fingerprint of the order, to tell a repetition from another order with the same key.
    pub(crate) fn purpose(&self) -> String {
        let whole = format!(
            "{:?}",
            (
                &self.task,
                &self.files,
                &self.repository,
                &self.workspace,
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
        if let Some(repository) = &self.repository {
            let branch = repository.branch.as_deref();
            let branch = branch.map_or(String::new(), |branch| format!(" (branch {branch})"));
            prompt += &format!(
                "\n\nYour working directory is a checkout of {}{branch}.",
                repository.url
            );
        }
        let names: Vec<String> = self
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

    fn order(task: &str, files: &[(&str, &str)]) -> Order {
        let file =
            |(name, content): &(&str, &str)| (FileName::new(name).unwrap(), (*content).to_owned());
        Order {
            files: files.iter().map(file).collect(),
            ..Order::new(task.into(), Instant::now())
        }
    }

    #[test]
    fn the_prompt_names_what_is_there() {
        assert_eq!(order("Fix it", &[]).prompt(), "Fix it");
        assert_eq!(
            order("Fix it", &[("a/b.py", "x")]).prompt(),
            "Fix it\n\nThe file `a/b.py` is in your working directory."
        );
        let mut both = order("Fix it", &[("a", ""), ("b", "")]);
        both.repository = Repository::new("https://h/r", Some("dev")).ok();
        assert_eq!(
            both.prompt(),
            "Fix it\n\nYour working directory is a checkout of https://h/r (branch dev).\n\nThe \
             files `a`, `b` are in your working directory."
        );
    }

    #[test]
    fn a_purpose_is_all_that_matters() {
        let purpose = order("t", &[("a", "b")]).purpose();
        assert_eq!(order("t", &[("a", "b")]).purpose(), purpose);
        for other in [
            order("t", &[("ab", "")]),
            order("t", &[("a", "c")]),
            order("t", &[]),
            order("t", &[("a", "b"), ("c", "")]),
        ] {
            assert_ne!(other.purpose(), purpose);
        }
        let mut elsewhere = order("t", &[("a", "b")]);
        elsewhere.workspace = Directory::new("x").ok();
        assert_ne!(elsewhere.purpose(), purpose);
    }

    #[test]
    fn orders_that_cannot_be_carried_out() {
        let files: Vec<(&str, &str)> = vec![("a", ""); 51];
        assert!(order("t", &files).checked().is_err());
        let mut two_places = order("t", &[]);
        two_places.repository = Repository::new("https://h/r", None).ok();
        assert!(two_places.clone().checked().is_ok());
        two_places.workspace = Directory::new("x").ok();
        assert!(two_places.checked().is_err());
    }
}
