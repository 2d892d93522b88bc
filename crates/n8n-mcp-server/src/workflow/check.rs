//! What is wrong with a workflow, as far as it can be told without n8n.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::connections::{Connection, MAIN, connections};
use super::{Draft, Tier, expressions, name_of, type_of};

/// Nodes that run what is written in them.
const CODE: [&str; 6] = [
    "code",
    "function",
    "functionItem",
    "executeCommand",
    "ssh",
    "toolCode",
];
/// Of a workflow that is not finished.
pub(crate) const NO_TRIGGER: &str = "No trigger: nothing starts the workflow.";
const NOTE: &str = "stickyNote";

/// Something that is wrong, or may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    pub(crate) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

/// Whether it runs nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Error,
    Warning,
}

impl Finding {
    pub(crate) fn error(node: &str, message: impl Into<String>, fix: &str) -> Self {
        Self::new(Severity::Error, node, message, fix)
    }

    pub(crate) fn warning(node: &str, message: impl Into<String>, fix: &str) -> Self {
        Self::new(Severity::Warning, node, message, fix)
    }

    fn new(severity: Severity, node: &str, message: impl Into<String>, fix: &str) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            severity,
            node: some(node),
            message: message.into(),
            fix: some(fix),
        }
    }
}

/// Everything that is found, errors first.
pub(crate) fn check(draft: &Draft) -> Vec<Finding> {
    let mut found = Vec::new();
    let names: HashSet<&str> = draft.nodes.iter().map(name_of).collect();
    nodes(draft, &mut found);
    match connections(&draft.connections) {
        Ok(all) => {
            wires(&all, &names, &mut found);
            reach(draft, &all, &mut found);
        }
        Err(place) => found.push(Finding::error(
            "",
            format!("{place} cannot be read."),
            "Write {\"A\": {\"main\": [[{\"node\": \"B\", \"type\": \"main\", \"index\": 0}]]}}.",
        )),
    }
    for node in &draft.nodes {
        texts(node, &names, &mut found);
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

/// Settings that n8n does not have, and that are left out when the workflow is written.
pub(crate) fn unknown_settings(draft: &Draft) -> Vec<Finding> {
    let keys = draft.settings.keys();
    // n8n returns the last one, and ignores it.
    let keys = keys.filter(|key| !Tier::New.keeps_setting(key) && *key != "binaryMode");
    let finding = |key: &String| Finding::warning("", format!("n8n has no setting {key:?}."), "");
    keys.map(finding).collect()
}

/// True if any of them keeps the workflow from running.
pub(crate) fn has_errors(found: &[Finding]) -> bool {
    found.iter().any(|one| one.severity == Severity::Error)
}

/// True for nodes of a type that runs what is written in them.
pub(crate) fn runs_code(kind: &str) -> bool {
    CODE.contains(&kind.rsplit('.').next().unwrap_or_default())
}

/// The last part of a node's type.
pub(crate) fn short(node: &Map<String, Value>) -> &str {
    type_of(node).rsplit('.').next().unwrap_or_default()
}

/// True for nodes that start a workflow.
fn is_trigger(node: &Map<String, Value>) -> bool {
    is_trigger_type(type_of(node))
}

/// True for types of nodes that start a workflow.
pub(crate) fn is_trigger_type(kind: &str) -> bool {
    let name = kind.rsplit('.').next().unwrap_or_default();
    name.ends_with("Trigger")
        || matches!(
            name,
            "webhook" | "start" | "cron" | "interval" | "emailReadImap"
        )
}

fn is_disabled(node: &Map<String, Value>) -> bool {
    node.get("disabled") == Some(&Value::Bool(true))
}

fn nodes(draft: &Draft, found: &mut Vec<Finding>) {
    let mut seen = HashSet::new();
    let mut urls: HashMap<String, &str> = HashMap::new();
    for (at, node) in draft.nodes.iter().enumerate() {
        let name = name_of(node);
        if name.is_empty() {
            found.push(Finding::error(
                "",
                format!("nodes[{at}] has no name."),
                "Give it one.",
            ));
        } else if !seen.insert(name) {
            found.push(Finding::error(
                name,
                "Two nodes have this name.",
                "Rename one: connections and expressions go by name.",
            ));
        }
        if !type_of(node).contains('.') {
            found.push(Finding::error(
                name,
                "Its type is missing or no type of a node.",
                "Write the whole type, such as n8n-nodes-base.set.",
            ));
        }
        if let Some(taken) = url(node).and_then(|url| urls.insert(url, name)) {
            found.push(Finding::error(
                name,
                format!("It has the method and path of {taken:?}."),
                "Change the path.",
            ));
        }
        if runs_code(type_of(node)) {
            found.push(Finding::warning(
                name,
                "It runs code or commands of its own.",
                "Have a person read them before the workflow is activated.",
            ));
        }
    }
    if !draft
        .nodes
        .iter()
        .any(|node| is_trigger(node) && !is_disabled(node))
    {
        found.push(Finding::error(
            "",
            NO_TRIGGER,
            "Add a node such as n8n-nodes-base.webhook or n8n-nodes-base.manualTrigger.",
        ));
    }
}

/// Method and path of a webhook.
fn url(node: &Map<String, Value>) -> Option<String> {
    let parameters = node.get("parameters")?;
    let path = parameters.get("path")?.as_str()?;
    let method = parameters.get("httpMethod").and_then(Value::as_str);
    (short(node) == "webhook" && !is_disabled(node))
        .then(|| format!("{} {}", method.unwrap_or("GET"), path.trim_matches('/')))
}

fn wires(all: &[Connection], names: &HashSet<&str>, found: &mut Vec<Finding>) {
    for Connection { from, to, .. } in all {
        for (end, other) in [(from, to), (to, from)] {
            if !names.contains(end.as_str()) {
                found.push(Finding::error(
                    other,
                    format!("It is connected with {end:?}, which is no node."),
                    "Add that node, or remove the connection.",
                ));
            }
        }
    }
}

/// Nodes that nothing leads to.
fn reach(draft: &Draft, all: &[Connection], found: &mut Vec<Finding>) {
    let mut reached: HashSet<&str> = draft
        .nodes
        .iter()
        .filter(|node| is_trigger(node))
        .map(name_of)
        .collect();
    let mut size = 0;
    while size < reached.len() {
        size = reached.len();
        for one in all {
            // Models, tools and memories hang on the node that they point to.
            if one.kind == MAIN && reached.contains(one.from.as_str()) {
                reached.insert(&one.to);
            } else if one.kind != MAIN && reached.contains(one.to.as_str()) {
                reached.insert(&one.from);
            }
        }
    }
    for node in &draft.nodes {
        let name = name_of(node);
        if !reached.contains(name) && short(node) != NOTE && !is_disabled(node) {
            found.push(Finding::warning(
                name,
                "No trigger leads to it: it never runs.",
                "Connect or remove it.",
            ));
        }
    }
}

fn texts(node: &Map<String, Value>, names: &HashSet<&str>, found: &mut Vec<Finding>) {
    let name = name_of(node);
    let Some(parameters) = node.get("parameters") else {
        return;
    };
    // What people read, with braces or without.
    if short(node) == NOTE {
        return;
    }
    expressions::texts(parameters, "", &mut |path, text| {
        let is_code = path.to_ascii_lowercase().ends_with("code");
        if let (Some(fault), false) = (expressions::fault(text), is_code) {
            let finding = if text.starts_with('=') {
                Finding::error
            } else {
                Finding::warning
            };
            found.push(finding(
                name,
                format!("`{path}` {fault}."),
                "Write an expression as `={{ … }}`.",
            ));
        }
        if !is_code && !text.starts_with('=') {
            return;
        }
        for named in expressions::references(text) {
            if !names.contains(named.as_str()) {
                found.push(Finding::error(
                    name,
                    format!("`{path}` refers to {named:?}, which is no node."),
                    "Name a node of the workflow.",
                ));
            }
        }
    });
}
