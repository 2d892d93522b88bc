//! `get_workflow`

use n8n_workflow::connections::{Connection, MAIN, parse_connections};
use n8n_workflow::draft::{Draft, name_of};
use n8n_workflow::node_type::runs_code;
use n8n_workflow::trigger::{Trigger, TriggerKind, parameters_of, triggers};
use n8n_workflow::{Definition, Node, UnpublishedDraft, Workflow};

use super::authoring::redacted;
use super::load;
use crate::start_method::Access;
use crate::tools::prelude::*;

/// One workflow: its nodes, how they are connected, and how each trigger can be run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetWorkflow {
    /// From list_workflows.
    workflow_id: Id,
    /// The whole definition, as update_workflow takes it, instead of the summary of nodes.
    #[serde(default)]
    full: bool,
    /// Only these nodes, with all that is in them, instead of the summary.
    #[serde(default)]
    nodes: Vec<String>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct WorkflowDetails {
    id: String,
    name: String,
    description: Option<String>,
    active: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
    /// Of the definition, for the tools that change it.
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    /// The draft, which is shown here, is not what is live.
    unpublished: Option<UnpublishedDraft>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<TriggerSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeSummary>,
    /// `from -> to`, with output and kind where they are not the first and `main`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connections: Vec<String>,
    settings: Option<Map<String, Value>>,
    /// Nodes whose output is pinned in the editor; it is not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<String>,
    definition: Option<Definition>,
    /// The nodes that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    whole_nodes: Vec<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct NodeSummary {
    name: String,
    r#type: String,
    /// Runs code or commands that are written in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    runs_code: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct TriggerSummary {
    node: String,
    kind: TriggerKind,
    method: Option<String>,
    /// Below `/webhook/`.
    path: Option<String>,
    /// JSON Schema of its input, as far as known.
    parameters: Option<Map<String, Value>>,
    /// run_workflow can start it.
    runnable: bool,
    /// Why not, and what would help.
    reason: Option<String>,
}

impl Tool for GetWorkflow {
    const NAME: &'static str = "get_workflow";
    /// A definition is whole: a part of it, written back, would delete the rest.
    const BOUNDS_ITS_RESULT: bool = true;
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = WorkflowDetails;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowDetails, ToolError> {
        let access = n8n.access()?;
        if self.full {
            let (workflow, mut definition): (_, Definition) =
                n8n.api.workflow_as(&self.workflow_id).await?;
            definition.nodes = n8n.redactor().raw_json(definition.nodes);
            return Ok(WorkflowDetails {
                definition: Some(definition),
                unpublished: n8n.api.unpublished(&workflow).await,
                ..about(&workflow, &access)
            });
        }
        if !self.nodes.is_empty() {
            let (workflow, draft) = load(n8n, &self.workflow_id).await?;
            return Ok(WorkflowDetails {
                id: workflow.id.clone(),
                name: workflow.name.clone(),
                active: workflow.active,
                version: workflow.updated_at.clone(),
                unpublished: n8n.api.unpublished(&workflow).await,
                whole_nodes: self.whole_nodes(&redacted(n8n, &draft))?,
                ..WorkflowDetails::default()
            });
        }
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        Ok(WorkflowDetails {
            nodes: workflow.nodes.iter().map(node_summary).collect(),
            connections: lines(&workflow.connections),
            settings: Some(workflow.settings.clone()).filter(|settings| !settings.is_empty()),
            unpublished: n8n.api.unpublished(&workflow).await,
            ..about(&workflow, &access)
        })
    }
}

impl GetWorkflow {
    /// The call without the whole definition.
    pub(crate) fn summary(workflow_id: Id) -> Self {
        Self {
            workflow_id,
            full: false,
            nodes: Vec::new(),
        }
    }

    fn whole_nodes(&self, shown: &Draft) -> Result<Vec<Map<String, Value>>, ToolError> {
        let node = |name: &String| match shown.node(name) {
            Some(node) => Ok(node.clone()),
            None => {
                let names: Vec<_> = shown.nodes.iter().map(name_of).collect();
                let names = names.join(", ");
                let message = format!("`nodes` names {name:?}. The workflow has: {names}.");
                Err(ToolError::invalid_argument(message))
            }
        };
        self.nodes.iter().map(node).collect()
    }
}

/// The fields that the summary and the whole definition share.
fn about(workflow: &Workflow, access: &Access) -> WorkflowDetails {
    let pinned = workflow.pin_data.iter().flat_map(Map::keys);
    let triggers = triggers(workflow);
    WorkflowDetails {
        id: workflow.id.clone(),
        name: workflow.name.clone(),
        description: workflow.description.clone(),
        active: workflow.active,
        archived: workflow.is_archived,
        version: workflow.updated_at.clone(),
        tags: workflow.tags.clone(),
        triggers: triggers
            .iter()
            .map(|trigger| summary(trigger, access))
            .collect(),
        pinned: pinned.cloned().collect(),
        ..WorkflowDetails::default()
    }
}

fn summary(trigger: &Trigger<'_>, access: &Access) -> TriggerSummary {
    let way = access.way(trigger);
    let webhook = (trigger.kind == TriggerKind::Webhook).then(|| trigger.webhook().ok());
    let webhook = webhook.flatten();
    TriggerSummary {
        node: trigger.node.name.clone(),
        kind: trigger.kind,
        method: webhook.as_ref().map(|webhook| {
            let methods: Vec<&str> = webhook.methods.iter().map(Method::as_str).collect();
            methods.join(", ")
        }),
        path: webhook.map(|webhook| webhook.path.join("/")),
        parameters: parameters(trigger),
        runnable: way.is_ok(),
        reason: way.err(),
    }
}

fn parameters(trigger: &Trigger<'_>) -> Option<Map<String, Value>> {
    match parameters_of(trigger) {
        Value::Object(schema) => Some(schema).filter(|schema| schema["properties"] != json!({})),
        _ => None,
    }
}

/// Connections as `A -> B`; empty if they cannot be read.
pub(super) fn lines(all: &Map<String, Value>) -> Vec<String> {
    let all = parse_connections(all).unwrap_or_default();
    all.into_iter().map(line).collect()
}

/// A connection as `A -> B`.
pub(super) fn line(one: Connection) -> String {
    let output = match one.output {
        0 => String::new(),
        output => format!("[{output}]"),
    };
    let arrow = match one.kind.as_str() {
        MAIN => "->".to_owned(),
        kind => format!("-{kind}->"),
    };
    format!("{}{output} {arrow} {}", one.from, one.to)
}

pub(super) fn node_summary(node: &Node) -> NodeSummary {
    NodeSummary {
        name: node.name.clone(),
        r#type: node.kind.clone(),
        runs_code: runs_code(&node.kind),
        disabled: node.disabled,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_connection_is_one_line() {
        let all = json!({
            "IF": {"main": [[{"node": "A", "type": "main", "index": 0}], null, [{"node": "B"}]]},
            "Model": {"ai_languageModel": [[{"node": "Agent"}]]},
        });
        let expected = ["IF -> A", "IF[2] -> B", "Model -ai_languageModel-> Agent"];
        assert_eq!(lines(all.as_object().unwrap()), expected);
    }
}
