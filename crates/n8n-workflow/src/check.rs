//! Checks a draft without n8n: structure, connections, and the names in expressions.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::connections::{Connection, MAIN, parse_connections};
use crate::draft::{Draft, FieldSet, is_disabled, name_of, short_type, type_of};
use crate::expressions;
use crate::node_type::{attached_by, runs_code};
use crate::trigger::TriggerKind;

/// The error of a workflow that is not finished.
pub const NO_TRIGGER: &str = "No trigger: nothing starts the workflow.";
const STICKY_NOTE: &str = "stickyNote";

/// All findings about a draft, errors first.
pub fn check(draft: &Draft) -> Vec<Finding> {
    let mut found = Findings::default();
    let names: HashSet<&str> = draft.nodes.iter().map(name_of).collect();
    check_nodes(draft, &mut found);
    match parse_connections(&draft.connections) {
        Ok(all) => {
            check_connections(&all, &names, &mut found);
            check_sub_nodes(draft, &all, &mut found);
            check_reachable(draft, &all, &mut found);
        }
        Err(place) => found.error(
            "",
            format!("{place} cannot be read."),
            "Write {\"A\": {\"main\": [[{\"node\": \"B\", \"type\": \"main\", \"index\": 0}]]}}.",
        ),
    }
    for node in &draft.nodes {
        check_expressions(node, &names, &mut found);
    }
    for key in draft.settings.keys() {
        // n8n returns `binaryMode`, and ignores it. The others are left out when the workflow is written.
        if !FieldSet::Newest.keeps_setting(key) && key != "binaryMode" {
            found.warning("", format!("n8n has no setting {key:?}."), "");
        }
    }
    let mut found = found.0;
    found.sort_by_key(|finding| finding.severity);
    found
}

fn is_trigger(node: &Map<String, Value>) -> bool {
    TriggerKind::from_type(type_of(node)).is_some()
}

fn check_nodes(draft: &Draft, found: &mut Findings) {
    let mut seen = HashSet::new();
    let mut urls: HashMap<String, &str> = HashMap::new();
    for (at, node) in draft.nodes.iter().enumerate() {
        let name = name_of(node);
        if name.is_empty() {
            found.error("", format!("nodes[{at}] has no name."), "Give it a name.");
        } else if !seen.insert(name) {
            let fix = "Rename one: connections and expressions go by name.";
            found.error(name, "Two nodes have this name.", fix);
        }
        if !type_of(node).contains('.') {
            let fix = "Write the whole type, such as n8n-nodes-base.set.";
            found.error(name, "Its type is missing or is not a type of node.", fix);
        }
        if let Some(taken) = webhook_url(node).and_then(|url| urls.insert(url, name)) {
            let message = format!("It has the method and path of {taken:?}.");
            found.error(name, message, "Change the path.");
        }
        if runs_code(type_of(node)) {
            let fix = "Have a person read them before the workflow is activated.";
            found.warning(name, "It runs code or commands of its own.", fix);
        }
    }
    if !draft
        .nodes
        .iter()
        .any(|node| is_trigger(node) && !is_disabled(node))
    {
        let fix = "Add a node such as n8n-nodes-base.webhook or n8n-nodes-base.manualTrigger.";
        found.error("", NO_TRIGGER, fix);
    }
}

/// Method and path of a webhook.
fn webhook_url(node: &Map<String, Value>) -> Option<String> {
    let parameters = node.get("parameters")?;
    let path = parameters.get("path")?.as_str()?;
    let method = parameters.get("httpMethod").and_then(Value::as_str);
    (short_type(node) == "webhook" && !is_disabled(node))
        .then(|| format!("{} {}", method.unwrap_or("GET"), path.trim_matches('/')))
}

fn check_connections(all: &[Connection], names: &HashSet<&str>, found: &mut Findings) {
    for Connection { from, to, .. } in all {
        for (end, other) in [(from, to), (to, from)] {
            if !names.contains(end.as_str()) {
                let message =
                    format!("It is connected with {end:?}, which is not a node of the workflow.");
                found.error(other, message, "Add that node, or remove the connection.");
            }
        }
    }
}

/// Finds sub-nodes that items are sent to: n8n publishes them, and each run fails there.
fn check_sub_nodes(draft: &Draft, all: &[Connection], found: &mut Findings) {
    for node in &draft.nodes {
        let name = name_of(node);
        let mut all = all.iter();
        let is_sent_items = all.any(|one| one.kind == MAIN && one.to == name);
        if let Some(kind) = attached_by(type_of(node)).filter(|_| is_sent_items) {
            let message = "A `main` connection leads to it, and no items pass through it: every run fails there.";
            let fix = format!("Connect it to the node that uses it, with kind {kind}.");
            found.warning(name, message, &fix);
        }
    }
}

/// Finds nodes that no trigger leads to.
fn check_reachable(draft: &Draft, all: &[Connection], found: &mut Findings) {
    let triggers = draft.nodes.iter().filter(|node| is_trigger(node));
    let mut reached: HashSet<&str> = triggers.map(name_of).collect();
    let mut size = 0;
    while size < reached.len() {
        size = reached.len();
        for one in all {
            // Models, tools and memories point to the node that uses them.
            if one.kind == MAIN && reached.contains(one.from.as_str()) {
                reached.insert(&one.to);
            } else if one.kind != MAIN && reached.contains(one.to.as_str()) {
                reached.insert(&one.from);
            }
        }
    }
    for node in &draft.nodes {
        let name = name_of(node);
        if !reached.contains(name) && short_type(node) != STICKY_NOTE && !is_disabled(node) {
            let message = "No trigger leads to it: it never runs.";
            found.warning(name, message, "Connect or remove it.");
        }
    }
}

fn check_expressions(node: &Map<String, Value>, names: &HashSet<&str>, found: &mut Findings) {
    let name = name_of(node);
    // Notes are for people and may hold braces.
    let Some(parameters) = node
        .get("parameters")
        .filter(|_| short_type(node) != STICKY_NOTE)
    else {
        return;
    };
    expressions::visit_texts(parameters, "", &mut |path, text| {
        let is_code = path.to_ascii_lowercase().ends_with("code");
        let is_expression = text.starts_with('=');
        if !is_code && let Some(error) = expressions::error(text) {
            let fix = "Write an expression as `={{ … }}`.";
            found.warning(name, format!("`{path}` {error}."), fix);
        }
        if !is_code && !is_expression {
            return;
        }
        if ["$env.", "$env[", "process.env"]
            .iter()
            .any(|part| text.contains(part))
        {
            let message = format!(
                "`{path}` reads environment variables, which n8n denies unless its operator has set \
                 N8N_BLOCK_ENV_ACCESS_IN_NODE=false."
            );
            found.warning(
                name,
                message,
                "Use a credential, or a variable of n8n ($vars).",
            );
        }
        for named in expressions::references(text) {
            if !names.contains(named.as_str()) {
                let message =
                    format!("`{path}` refers to {named:?}, which is not a node of the workflow.");
                found.warning(name, message, "Name a node of the workflow.");
            }
        }
    });
}

/// A problem, or a possible one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct Finding {
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub message: String,
    /// Fix for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Whether it runs anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// Findings in the order in which they are made.
#[derive(Clone, Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds an error about a node, or about the workflow if `node` is empty; `fix` may be empty.
    pub fn error(&mut self, node: &str, message: impl Into<String>, fix: &str) {
        self.add(Severity::Error, node, message.into(), fix);
    }

    /// The same, a warning.
    pub fn warning(&mut self, node: &str, message: impl Into<String>, fix: &str) {
        self.add(Severity::Warning, node, message.into(), fix);
    }

    fn add(&mut self, severity: Severity, node: &str, message: String, fix: &str) {
        let not_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.0.push(Finding {
            severity,
            node: not_empty(node),
            message,
            fix: not_empty(fix),
        });
    }
}
