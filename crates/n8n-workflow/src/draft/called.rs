//! The workflows that a definition starts: sub-workflows, tools of agents, and its error workflow.

use serde_json::{Map, Value};

use crate::node::Node;
use crate::workflow::Id;

/// The parameters that hold another workflow as JSON, its file or its URL.
const INLINE: [&str; 3] = ["workflowJson", "workflowPath", "workflowUrl"];
/// The error workflow of a workflow that has none.
const NO_ERROR_WORKFLOW: &str = "DEFAULT";

/// All references of these `settings` and `nodes` of a workflow to other workflows, of every type of node: they are known
/// by the names of the parameters. Each is the node or setting, and the id; `None` if the workflow is known only when it
/// runs.
pub fn called_workflows(
    settings: &Map<String, Value>,
    nodes: &[Node],
) -> Vec<(String, Option<Id>)> {
    let error_workflow = settings.get("errorWorkflow").and_then(Value::as_str);
    let error_workflow = error_workflow.filter(|id| !matches!(*id, "" | NO_ERROR_WORKFLOW));
    let error_workflow = error_workflow.map(|id| {
        let place = "the setting errorWorkflow".to_owned();
        (place, Id::try_from(id.to_owned()).ok())
    });
    let mut called = Vec::from_iter(error_workflow);
    for node in nodes {
        let parameters = node.parameters();
        let source = parameters.get("source").and_then(Value::as_str);
        let is_inline = source.is_some_and(|source| source != "database")
            && INLINE.iter().any(|key| parameters.get(*key).is_some());
        let ids = match is_inline {
            true => vec![None],
            false => called_ids(parameters)
                .into_iter()
                .map(|id| Id::try_from(id).ok())
                .collect(),
        };
        let place = format!("node {:?}", node.name());
        called.extend(ids.into_iter().map(|id| (place.clone(), id)));
    }
    called
}

/// The values of `workflowId` at any depth: an id, or a locator with one in `value`.
pub fn called_ids(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match value {
        Value::Array(all) => found.extend(all.iter().flat_map(called_ids)),
        Value::Object(all) => {
            for (key, value) in all {
                let id = match value.get("value").unwrap_or(value) {
                    Value::String(id) => Some(id.clone()),
                    Value::Number(id) => Some(id.to_string()),
                    _ => None,
                };
                match id {
                    Some(id) if key == "workflowId" && !id.is_empty() => found.push(id),
                    _ => found.extend(called_ids(value)),
                }
            }
        }
        _ => {}
    }
    found
}
