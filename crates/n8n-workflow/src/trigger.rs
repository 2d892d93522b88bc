//! The triggers of a workflow: their kinds, URLs, and parameters.

mod field;
mod schema;
#[cfg(test)]
mod tests;
mod url;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::node_type::last_part;
use crate::workflow::{Node, Workflow};

pub use field::{FormField, FormFieldKind, WaitsFor, fields_of, waits_for};
pub use schema::{
    COMPUTED_FIELDS, parameters_in_note, parameters_of, schema_of_fields, without_code,
};
pub use url::Webhook;

/// The kind of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    Webhook,
    Chat,
    Form,
    Schedule,
    Manual,
    SubWorkflow,
    // An event of another service.
    Event,
}

/// A trigger node that is not disabled.
pub struct Trigger<'a> {
    /// One of the nodes in production.
    pub node: &'a Node,
    /// By the type of the node.
    pub kind: TriggerKind,
    /// The workflow that it starts.
    pub workflow: &'a Workflow,
}

impl TriggerKind {
    /// The kind of nodes of this type; `None` if they are no triggers.
    pub fn from_type(kind: &str) -> Option<Self> {
        let name = last_part(kind);
        Some(match name {
            "webhook" => Self::Webhook,
            "chatTrigger" => Self::Chat,
            "formTrigger" => Self::Form,
            "scheduleTrigger" | "cron" | "interval" => Self::Schedule,
            "manualTrigger" | "start" => Self::Manual,
            "executeWorkflowTrigger" => Self::SubWorkflow,
            "emailReadImap" => Self::Event,
            _ if name.ends_with("Trigger") => Self::Event,
            _ => return None,
        })
    }
}

/// The triggers of a workflow, in the order of its nodes.
pub fn triggers(workflow: &Workflow) -> Vec<Trigger<'_>> {
    let live = workflow.live_nodes().iter().filter(|node| !node.disabled);
    live.filter_map(|node| {
        Some(Trigger {
            node,
            kind: TriggerKind::from_type(&node.kind)?,
            workflow,
        })
    })
    .collect()
}

impl Trigger<'_> {
    /// The scheme of the authentication that its URL requires.
    pub fn authentication(&self) -> Option<&str> {
        self.text("authentication")
            .filter(|scheme| *scheme != "none")
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.node.parameters.get(parameter).and_then(Value::as_str)
    }
}
