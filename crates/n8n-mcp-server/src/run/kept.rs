//! The executions that n8n keeps of a workflow, by its settings.

use n8n_workflow::node_type::last_part;
use n8n_workflow::{Node, Workflow};
use serde_json::Value;

/// Whether n8n may keep the executions of a workflow. Without a setting the instance decides, which
/// keeps all unless its operator has changed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Executions that succeed.
    pub(super) successes: bool,
    /// Executions that fail.
    pub(super) failures: bool,
    /// Executions may wait: then n8n 1 does not list them.
    pub(super) may_wait: bool,
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
            // An n8n 1 without versions lists no execution that has only begun, either.
            may_wait: !workflow.has_versions() || workflow.live_nodes().iter().any(may_wait),
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
