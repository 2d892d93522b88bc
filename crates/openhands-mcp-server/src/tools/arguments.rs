//! Arguments that several tools share.

use std::time::Duration;

use mcp_core::tool::{Bounded, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::file_name::FileName;
use crate::order::{Budget, Confirm, Order};
use crate::repository::Repository;
use crate::workspace::Directory;

/// Hosts and our own transports give up on a call after 30 s; by then it must have been answered,
/// or the task's id is lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(28);
/// Leaves the largest part of that to the task.
const DEFAULT_WAIT: u32 = 20;

/// Seconds that a call waits.
pub(super) type Wait = Bounded<0, 25>;

/// Until when a call waits, and when it must be answered.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) until: Instant,
    pub(super) answer_by: Instant,
}

impl Patience {
    pub(super) fn of(wait: Option<Wait>) -> Self {
        let wait = wait.map_or(DEFAULT_WAIT, Bounded::get);
        let now = Instant::now();
        Self {
            until: now + Duration::from_secs(wait.into()),
            answer_by: now + ANSWER_WITHIN,
        }
    }

    /// The same, from now on.
    pub(super) fn renewed(self) -> Self {
        let began = self.answer_by - ANSWER_WITHIN;
        let now = Instant::now();
        Self {
            until: now + self.until.saturating_duration_since(began),
            answer_by: now + ANSWER_WITHIN,
        }
    }
}

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
    /// Adds it to an order.
    pub(super) fn apply(self, order: &mut Order) -> Result<(), ToolError> {
        match (self.file, self.content) {
            (Some(file), Some(content)) => order.files.push((file, content)),
            (None, None) => {}
            (Some(_), None) => return refuse("context.content is missing: what is in the file?"),
            (None, Some(_)) => {
                return refuse("context.file is missing: where is the content to go?");
            }
        }
        let files = self.files.into_iter();
        order
            .files
            .extend(files.map(|file| (file.file, file.content)));
        match (&self.repository, &self.branch) {
            (Some(url), branch) => {
                let repository = Repository::new(url, branch.as_deref());
                order.repository = Some(repository.map_err(ToolError::invalid_argument)?);
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

/// What a task may do and use up.
pub(super) struct Terms {
    pub(super) agent: Option<String>,
    pub(super) max_iterations: Option<Bounded<1, 100_000>>,
    pub(super) max_seconds: Option<Bounded<1, 604_800>>,
    pub(super) max_cost: Option<f64>,
    pub(super) confirm: Option<Confirm>,
}

impl Terms {
    /// Adds them to an order.
    pub(super) fn apply(&self, order: &mut Order) -> Result<(), ToolError> {
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
        order.agent.clone_from(&self.agent);
        order.confirm = self.confirm;
        order.budget = Budget {
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
