//! The executions that n8n keeps of a workflow, by its settings.

use serde_json::Value;

use crate::api::Workflow;

/// Whether n8n may keep the executions of a workflow. Without a setting the instance decides, which
/// keeps all unless its operator has changed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Executions that succeed.
    pub(super) successes: bool,
    /// Executions that fail.
    pub(super) failures: bool,
    /// n8n lists executions that wait (n8n 2): then an execution that is in no list does not exist.
    pub(super) lists_waiting: bool,
}

impl Kept {
    pub(super) fn new(workflow: &Workflow) -> Self {
        let keeps = |setting: &str| {
            let setting = workflow.settings.get(setting);
            setting.and_then(Value::as_str) != Some("none")
        };
        Self {
            successes: keeps("saveDataSuccessExecution"),
            failures: keeps("saveDataErrorExecution"),
            lists_waiting: workflow.has_versions(),
        }
    }

    /// Whether n8n may keep an execution whose trigger has replied at its end, with success or not;
    /// `None` for a reply from its start.
    pub(super) fn after_reply(self, succeeded: Option<bool>) -> bool {
        match succeeded {
            Some(true) => self.successes,
            Some(false) | None => self.successes || self.failures,
        }
    }
}
