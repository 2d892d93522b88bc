//! The executions that n8n keeps of a workflow, by its settings.

use serde_json::Value;

use crate::api::{Node, Workflow};
use crate::workflow::check::last_part;

/// Whether n8n may keep the executions of a workflow. Without a setting the instance decides, which
/// keeps all unless its operator has changed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Executions that succeed.
    pub(super) successes: bool,
    /// Executions that fail.
    pub(super) failures: bool,
    /// An execution that is in no list does not exist: n8n lists those that wait (n8n 2), or none can wait.
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
            // The last n8n 1 has versions, too.
            lists_waiting: workflow.has_versions() && !workflow.live_nodes().iter().any(may_wait),
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

/// True for nodes that can suspend an execution: until a time, a request or the answer of a person.
fn may_wait(node: &Node) -> bool {
    let kinds = ["wait", "form", "executeWorkflow"];
    let operation = node.parameters.get("operation").and_then(Value::as_str);
    kinds.contains(&last_part(&node.kind)) || operation == Some("sendAndWait")
}
