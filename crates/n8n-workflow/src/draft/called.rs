//! The workflows that a definition starts: sub-workflows, tools of agents, and its error workflow.

use serde_json::Value;

use super::{Draft, name_of};
use crate::id::Id;

/// The parameters that hold another workflow as JSON, its file or its URL.
const INLINE: [&str; 3] = ["workflowJson", "workflowPath", "workflowUrl"];
/// The error workflow of a workflow that has none.
const NO_ERROR_WORKFLOW: &str = "DEFAULT";

/// A reference to another workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledWorkflow {
    /// The node or the setting with the reference.
    pub place: String,
    /// An id, an expression, or the workflow itself, its file or its URL.
    text: String,
}

impl CalledWorkflow {
    /// The id; `None` if the workflow is known only when it runs.
    pub fn id(&self) -> Option<Id> {
        Id::try_from(self.text.clone()).ok()
    }
}

/// All references of `draft` to other workflows, of every type of node: they are known by the names of
/// the parameters.
pub fn called_workflows(draft: &Draft) -> Vec<CalledWorkflow> {
    let mut called = Vec::new();
    let error_workflow = draft.settings.get("errorWorkflow").and_then(Value::as_str);
    if let Some(id) = error_workflow.filter(|id| !matches!(*id, "" | NO_ERROR_WORKFLOW)) {
        let (place, text) = ("the setting errorWorkflow".to_owned(), id.to_owned());
        called.push(CalledWorkflow { place, text });
    }
    for node in &draft.nodes {
        let Some(parameters) = node.get("parameters") else {
            continue;
        };
        let source = parameters.get("source").and_then(Value::as_str);
        let inline = INLINE.iter().find_map(|key| parameters.get(*key));
        let texts = match inline.filter(|_| source.is_some_and(|source| source != "database")) {
            // With blanks around it: it is no id.
            Some(workflow) => vec![format!(" {workflow} ")],
            None => called_ids(parameters),
        };
        called.extend(texts.into_iter().map(|text| CalledWorkflow {
            place: format!("node {:?}", name_of(node)),
            text,
        }));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_in_every_form() {
        let node = |name: &str, parameters: Value| json!({"name": name, "type": "t", "parameters": parameters});
        let draft = json!({"name": "W", "settings": {"errorWorkflow": "e"}, "nodes": [
            node("Plain", json!({"workflowId": "a"})),
            node("Locator", json!({"workflowId": {"__rl": true, "mode": "list", "value": "b"}})),
            node("Expression", json!({"workflowId": {"value": "={{ 'c' }}", "mode": "id"}})),
            node("Json", json!({"source": "parameter", "workflowJson": "{}"})),
            node("Nested", json!({"options": [{"workflowId": "d"}]})),
            node("Number", json!({"workflowId": {"value": 7}})),
            node("None", json!({"workflowId": "", "source": "database"})),
        ]});
        let draft = Draft::read(draft.as_object().unwrap().clone()).unwrap();
        let called = called_workflows(&draft);
        let ids: Vec<_> = called
            .iter()
            .map(|one| one.id().map(|id| id.to_string()))
            .collect();
        let expected = [
            Some("e"),
            Some("a"),
            Some("b"),
            None,
            None,
            Some("d"),
            Some("7"),
        ];
        assert_eq!(ids, expected.map(|id| id.map(str::to_owned)));
        assert_eq!(called[1].place, "node \"Plain\"");
        let draft = json!({"name": "W", "settings": {"errorWorkflow": "DEFAULT"}, "nodes": []});
        let draft = Draft::read(draft.as_object().unwrap().clone()).unwrap();
        assert_eq!(called_workflows(&draft), []);
    }
}
