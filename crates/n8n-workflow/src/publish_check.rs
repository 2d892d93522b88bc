//! The copy of a draft that n8n is asked to publish, and the findings in its answers.
//!
//! A copy holds one node more, which calls a workflow that does not exist. n8n refuses that after
//! all of its other checks: its answer holds its whole verdict, and no copy is ever published.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::check::{Finding, Findings, NO_TRIGGER};
use crate::draft::Draft;
use crate::node::Node;
use crate::trigger::TriggerKind;

/// The start of a copy's name.
pub const COPY_NAME: &str = "publish check ";
const COPY_NAME_END: &str = ", deleted at once";
/// n8n's reference to a workflow that is not active, with its name; the end may be cut off.
const REFERENCE: &str = r#"(?s)(references workflow (\S+)) \(".*?(?:"\)( which)|\z)"#;
const STRUCTURE: &str = "Workflow structure is invalid. ";
const CONFLICT: &str = "n8n does not publish it: another active workflow has a webhook with the \
    same method and path, or two nodes of this one have.";

/// A draft that is being checked.
#[derive(Clone, Debug)]
pub struct PublishCheck {
    /// The copy to create and to publish.
    pub copy: Draft,
    /// The faults that n8n has named so far.
    pub found: Findings,
    /// The id of the workflow that does not exist.
    called: String,
}

impl PublishCheck {
    /// `is_active`: the workflow itself is active, so its own webhooks are in use.
    pub fn new(draft: &Draft, is_active: bool) -> Self {
        let called = new_id();
        let mut copy = draft.clone();
        copy.name = format!("{COPY_NAME}{called}{COPY_NAME_END}");
        copy.drop_editor_parts();
        let mut check = Self {
            copy,
            found: Findings::default(),
            called,
        };
        let name = name_of_call(&check.called);
        check.add(
            &name,
            "executeWorkflow",
            json!({"workflowId": check.called}),
        );
        if is_active {
            check.copy.make_urls_unique();
        }
        check
    }

    /// A check of a workflow that n8n publishes unless it refuses the call.
    pub fn probe() -> Self {
        let mut check = Self::new(&Draft::default(), false);
        check.add_trigger();
        check
    }

    /// True if this answer is the refusal of the node that was added, and of nothing else.
    pub fn is_own(&self, answer: &str) -> bool {
        answer.contains(&self.called) && answer.matches("references workflow").count() == 1
    }

    /// Reads n8n's refusal, or that another workflow has the webhooks (`None`). Changes the copy so
    /// that the next answer shows further faults; false if n8n could show no further ones.
    pub fn read(&mut self, answer: Option<&str>) -> bool {
        let Some(answer) = answer else {
            self.found
                .error("", CONFLICT, "Change the path of the webhook.");
            self.copy.make_urls_unique();
            return true;
        };
        if let Some(faults) = answer.strip_prefix(STRUCTURE) {
            for fault in faults.split("; ") {
                self.found
                    .error("", format!("n8n does not accept it: {fault}."), "");
            }
            return false;
        }
        let mut faulty = Vec::new();
        for node in &self.copy.nodes {
            if let Some((message, fix)) = fault_of(node, answer) {
                self.found.error(node.name(), message, fix);
                faulty.push(node.name().to_owned());
            }
        }
        if !faulty.is_empty() {
            return self.neutralize(&faulty);
        }
        if answer.contains("no trigger node") {
            let fix = "Add a node such as n8n-nodes-base.webhook or \
                       n8n-nodes-base.scheduleTrigger; a manual trigger runs only by hand.";
            self.found.error("", NO_TRIGGER, fix);
            self.add_trigger();
            return true;
        }
        if let Some((_, nodes)) = answer.split_once("configuration issues:") {
            let names = self.read_issues(nodes);
            return self.neutralize(&names);
        }
        let refusal = answer.trim_start_matches("Cannot publish workflow: ");
        if refusal.contains("references workflow") {
            let refusal = refusal.split(". Please publish").next().unwrap_or_default();
            for one in refusal
                .split("; ")
                .filter(|one| !one.contains(&self.called))
            {
                let (node, message) = one
                    .strip_prefix("Node \"")
                    .and_then(|rest| rest.rsplit_once("\" references"))
                    .map_or(("", one.to_owned()), |(node, rest)| {
                        (node, format!("It references{rest}."))
                    });
                let fix = "Name a workflow that exists, and activate that first.";
                self.found.error(node, message, fix);
            }
            return false;
        }
        self.found
            .error("", format!("n8n does not publish it: {refusal}"), "");
        false
    }

    /// Reads `Node "A":`, each with lines `- fault`; returns the names.
    fn read_issues(&mut self, nodes: &str) -> Vec<String> {
        let mut names = Vec::new();
        for line in nodes.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("Node \"") {
                names.push(name.trim_end_matches("\":").to_owned());
                continue;
            }
            let Some(fault) = line.strip_prefix("- ") else {
                continue;
            };
            let fix = if fault.contains("redential") {
                "Set `credentials` of the node to {type: {id, name}} of one that list_credentials \
                 shows; get_node has the types."
            } else if fault.contains("parameters") {
                "get_node shows these parameters."
            } else {
                ""
            };
            let name = names.last().map_or("", String::as_str);
            self.found.error(name, format!("{fault}."), fix);
        }
        names
    }

    /// Puts nodes without faults in the places of these; false if no node was replaced.
    fn neutralize(&mut self, names: &[String]) -> bool {
        let mut changed = false;
        let is_it = |node: &&mut Node| names.iter().any(|name| name == node.name());
        for node in self.copy.nodes.iter_mut().filter(is_it) {
            let kind = match TriggerKind::from_type(node.kind()) {
                Some(_) => "webhook",
                None => "noOp",
            };
            node.insert("type".into(), format!("n8n-nodes-base.{kind}").into());
            node.insert("typeVersion".into(), 1.into());
            node.insert("parameters".into(), json!({"path": new_id()}));
            node.remove("credentials");
            changed = true;
        }
        changed
    }

    fn add_trigger(&mut self) {
        let path = json!({"path": self.called});
        let name = format!("trigger {}", self.called);
        self.add(&name, "webhook", path);
    }

    fn add(&mut self, name: &str, kind: &str, parameters: Value) {
        let node = json!({
            "id": new_id(), "name": name, "type": format!("n8n-nodes-base.{kind}"),
            "typeVersion": 1, "position": [0, 0], "parameters": parameters,
            "webhookId": new_id(),
        });
        self.copy.nodes.extend(node.as_object().cloned().map(Node));
    }

    /// All findings, each once.
    pub fn into_findings(self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for one in self.found.0 {
            if !found.contains(&one) {
                found.push(one);
            }
        }
        found
    }
}

/// The fault of a node whose type or version this answer says to be unknown, and what to do about it.
fn fault_of<'a>(node: &Node, answer: &'a str) -> Option<(String, &'a str)> {
    let kind = node.kind();
    if let Some(named) = answer.strip_prefix("Unrecognized node type: ") {
        // n8n names a node that is a tool without the last word of its type.
        let own = [Some(kind), kind.strip_suffix("Tool")];
        let is_it = own.contains(&Some(named)) || named.strip_suffix(".undefined") == Some(kind);
        let message = format!("This n8n has no node of type {kind:?}.");
        return is_it.then_some((message, "Find the right type with list_nodes."));
    }
    let version = node.get("typeVersion").map(Value::to_string);
    let version = version.unwrap_or_default();
    let name = node.short_kind();
    let start = format!("Node type \"{name}\" is not available in version {version}.");
    let fix = answer.strip_prefix(&start)?.trim_start();
    Some((
        format!("This n8n has no version {version} of {kind:?}."),
        fix,
    ))
}

/// True for a copy of any check: only those have the id in their name in the node that was added, too.
pub fn is_copy(name: &str, nodes: &[Node]) -> bool {
    let id = name.strip_prefix(COPY_NAME);
    let id = id.and_then(|rest| rest.strip_suffix(COPY_NAME_END));
    let id = id.filter(|id| Uuid::try_parse(id).is_ok());
    let is_call = |id| nodes.iter().any(|node| node.name() == name_of_call(id));
    id.is_some_and(is_call)
}

/// n8n's refusal without the names of workflows, except those with an id that `is_open`.
pub fn hide_names(refusal: &str, is_open: impl Fn(&str) -> bool) -> String {
    static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(REFERENCE).ok());
    let Some(named) = NAMED.as_ref() else {
        return String::new();
    };
    let shown = |found: &Captures<'_>| {
        let part = |at| found.get(at).map_or("", |part| part.as_str());
        match is_open(part(2)) {
            true => part(0).to_owned(),
            false => format!("{}{}", part(1), part(3)),
        }
    };
    named.replace_all(refusal, shown).into_owned()
}

fn name_of_call(called: &str) -> String {
    format!("calls {called}")
}

fn new_id() -> String {
    Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_closed_workflows_are_hidden() {
        let text = "Cannot publish workflow: Node \"A\" references workflow 7 (\"Pay; (roll)\") \
                    which is not published; Node \"B\" references workflow 8 (\"Open\") which is \
                    not published; Node \"C\" references workflow 9 which is not published; Node \
                    \"D\" references workflow 7 (\"Pay";
        let hidden = "Cannot publish workflow: Node \"A\" references workflow 7 which is not \
                      published; Node \"B\" references workflow 8 (\"Open\") which is not \
                      published; Node \"C\" references workflow 9 which is not published; Node \
                      \"D\" references workflow 7";
        assert_eq!(hide_names(text, |id| id != "7"), hidden);
        assert_eq!(hide_names(text, |_| true), text);
    }
}
