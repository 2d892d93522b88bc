//! Finds what would go wrong in a run though n8n publishes it: the paths of items, and parameters of
//! triggers and requests.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Findings;
use crate::connections::{Connection, MAIN};
use crate::draft::{Draft, is_disabled, name_of, short_type};
use crate::node_type::output_names;

type Node = Map<String, Value>;

/// Nodes that need not pass on what they get.
const EXITS: [&str; 9] = [
    "if",
    "switch",
    "filter",
    "splitInBatches",
    "limit",
    "code",
    "function",
    "removeDuplicates",
    "stopAndError",
];
const HANDLES_RESPONSE: &str = "responseNode";

pub(super) fn check_flow(draft: &Draft, all: &[Connection], found: &mut Findings) {
    let main: Vec<_> = all.iter().filter(|one| one.kind == MAIN).collect();
    for one in &main {
        let outputs = draft.node(&one.from).and_then(main_outputs);
        if let Some(outputs) = outputs.filter(|outputs| one.output >= *outputs) {
            let Connection {
                from, to, output, ..
            } = one;
            let last = outputs - 1;
            let message = format!("It has no output {output}: nothing reaches {to:?} from it.");
            found.warning(from, message, &format!("Its last output is {last}."));
        }
    }
    for node in &draft.nodes {
        check_loop(node, &main, found);
        check_parameters(node, found);
    }
    check_cycles(draft, &main, found);
    check_responses(draft, found);
}

fn parameter<'a>(node: &'a Node, name: &str) -> Option<&'a Value> {
    node.get("parameters")?.get(name)
}

fn parameter_text<'a>(node: &'a Node, name: &str) -> &'a str {
    let value = parameter(node, name).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// The number of the node's outputs; `None` if it follows from more than is looked at.
fn main_outputs(node: &Node) -> Option<usize> {
    let version = node
        .get("typeVersion")
        .and_then(Value::as_f64)
        .unwrap_or(1.0);
    let own = match short_type(node) {
        kind @ ("if" | "compareDatasets" | "splitInBatches") => output_names(kind, version).len(),
        "set" | "noOp" | "filter" | "httpRequest" | "merge" | "dateTime" | "limit" | "sort"
        | "aggregate" | "splitOut" | "wait" | "scheduleTrigger" | "manualTrigger" => 1,
        "code" if !node.get("type")?.as_str()?.contains("langchain") => 1,
        "switch" if version >= 3.0 => match parameter_text(node, "mode") {
            "expression" => usize::try_from(parameter(node, "numberOutputs")?.as_u64()?).ok()?,
            _ => {
                let rules = parameter(node, "rules")?.get("values")?.as_array()?.len();
                let extra = parameter(node, "options")
                    .and_then(|options| options.get("fallbackOutput"))
                    .is_some_and(|output| output == "extra");
                rules + usize::from(extra)
            }
        },
        _ => return None,
    };
    let has_error_output = node
        .get("onError")
        .is_some_and(|on| on == "continueErrorOutput");
    Some(own + usize::from(has_error_output))
}

/// The nodes that follow from an output, without going on through `end`.
fn reached<'a>(
    from: &'a str,
    output: usize,
    end: &str,
    main: &[&'a Connection],
) -> HashSet<&'a str> {
    let start = main
        .iter()
        .filter(|one| one.from == from && one.output == output);
    let mut open: Vec<&str> = start.map(|one| one.to.as_str()).collect();
    let mut seen = HashSet::new();
    while let Some(name) = open.pop() {
        if seen.insert(name) && name != end {
            open.extend(
                main.iter()
                    .filter(|one| one.from == name)
                    .map(|one| one.to.as_str()),
            );
        }
    }
    seen
}

fn check_loop(node: &Node, main: &[&Connection], found: &mut Findings) {
    let version = node
        .get("typeVersion")
        .and_then(Value::as_f64)
        .unwrap_or(1.0);
    if short_type(node) != "splitInBatches" || version < 2.0 || is_disabled(node) {
        return;
    }
    let name = name_of(node);
    let (done, each) = if version < 3.0 { (1, 0) } else { (0, 1) };
    let comes_back = |output| reached(name, output, name, main).contains(name);
    if comes_back(done) && !comes_back(each) {
        let message =
            format!("Its outputs are swapped: {done} is for the end, {each} for each batch.");
        found.warning(
            name,
            message,
            "Connect the nodes of the loop to the other one.",
        );
    } else if !comes_back(each) {
        let message = format!("Nothing leads back to it from output {each}: only one batch runs.");
        found.warning(name, message, "Connect the last node of the loop to it.");
    }
}

/// Finds cycles of nodes that all pass on what they get.
fn check_cycles(draft: &Draft, main: &[&Connection], found: &mut Findings) {
    let goes_on = |name: &str| {
        let node = draft.node(name);
        node.is_some_and(|node| !EXITS.contains(&short_type(node)) && !is_disabled(node))
    };
    let inner: Vec<&Connection> = main
        .iter()
        .copied()
        .filter(|one| goes_on(&one.from) && goes_on(&one.to))
        .collect();
    for node in &draft.nodes {
        let name = name_of(node);
        let starts: HashSet<usize> = inner
            .iter()
            .filter(|one| one.from == name)
            .map(|one| one.output)
            .collect();
        let is_cycle = |output: usize| reached(name, output, name, &inner).contains(name);
        if starts.into_iter().any(is_cycle) {
            let message = "It is in a cycle without an end: every node passes on what it gets.";
            found.warning(name, message, "Leave the cycle by an If node.");
            return;
        }
    }
}

/// Compares the triggers that wait for a node's response with the nodes that respond.
fn check_responses(draft: &Draft, found: &mut Findings) {
    let active = || draft.nodes.iter().filter(|node| !is_disabled(node));
    let responder = active().find(|node| short_type(node) == "respondToWebhook");
    let mut waits = active().filter(|node| {
        let chat = parameter(node, "options").and_then(|options| options.get("responseMode"));
        parameter_text(node, "responseMode").starts_with(HANDLES_RESPONSE)
            || chat.is_some_and(|mode| {
                mode.as_str()
                    .is_some_and(|mode| mode.starts_with(HANDLES_RESPONSE))
            })
    });
    let webhook = active().find(|node| short_type(node) == "webhook");
    let waiting = waits.next();
    match (waiting, responder) {
        (Some(trigger), None) if short_type(trigger) == "webhook" => {
            let message = "It waits for a node that responds, and there is none.";
            let fix = "Add a Respond to Webhook node, or set responseMode to lastNode.";
            found.warning(name_of(trigger), message, fix);
        }
        (None, Some(responder)) if webhook.is_some() => {
            let message = "No webhook waits for its response: n8n fails the run.";
            let fix = "Set responseMode of the webhook to responseNode.";
            found.warning(name_of(responder), message, fix);
        }
        _ => {}
    }
}

fn check_parameters(node: &Node, found: &mut Findings) {
    let name = name_of(node);
    match short_type(node) {
        "httpRequest" | "httpRequestTool" => {
            let url = parameter_text(node, "url");
            let has_scheme = url.starts_with("http://") || url.starts_with("https://");
            if !url.starts_with('=') && !has_scheme && !url.contains("{{") {
                let message =
                    format!("Its url is {url:?}, not an address with http:// or https://.");
                found.warning(name, message, "Write the whole address.");
            }
            let generic = parameter_text(node, "authentication") == "genericCredentialType";
            let kind = parameter_text(node, "genericAuthType");
            let credentials = node.get("credentials").and_then(Value::as_object);
            if generic && !kind.is_empty() && credentials.is_none_or(|all| !all.contains_key(kind))
            {
                let message = format!("It has no credential of type {kind}.");
                found.warning(name, message, "Set it in `credentials` of the node.");
            }
            let body = parameter_text(node, "jsonBody");
            let is_json = || serde_json::from_str::<Value>(body).is_ok();
            let sends = parameter_text(node, "specifyBody") == "json";
            if sends && !body.is_empty() && !body.starts_with('=') && !is_json() {
                found.warning(
                    name,
                    "Its jsonBody is not JSON.",
                    "Mend it, or write an expression.",
                );
            }
        }
        "scheduleTrigger" => {
            let intervals =
                parameter(node, "rule").and_then(|rule| rule.get("interval")?.as_array());
            for one in intervals.into_iter().flatten() {
                let cron = one.get("expression").and_then(Value::as_str);
                if let Some(cron) = cron.filter(|cron| !cron.starts_with('=') && !is_cron(cron)) {
                    let message = format!("{cron:?} is not a cron expression: it never starts.");
                    found.warning(name, message, "Write five fields, such as 0 9 * * 1-5.");
                }
            }
        }
        "code" => {
            let code = parameter(node, "jsCode").and_then(Value::as_str);
            let is_python = parameter_text(node, "language").starts_with("python");
            if let Some(code) = code.filter(|_| !is_python)
                && !returns_items(code)
            {
                let message = "Its code returns no items, so n8n fails the run.";
                found.warning(name, message, "Return an array of items: [{json: {…}}].");
            }
        }
        _ => {}
    }
}

/// True if what some `return` returns may be items.
fn returns_items(code: &str) -> bool {
    code.split("return").skip(1).any(|rest| {
        let first = rest.trim_start().chars().next();
        first.is_some_and(|first| !first.is_ascii_digit() && !";'\"`".contains(first))
    })
}

/// True for five or six fields of numbers in their ranges, names, and signs.
fn is_cron(text: &str) -> bool {
    const MAXIMA: [u32; 6] = [59, 59, 23, 31, 12, 7];
    let fields: Vec<&str> = text.split_whitespace().collect();
    let Some(first) = 6_usize.checked_sub(fields.len()).filter(|first| *first < 2) else {
        return false;
    };
    fields.iter().zip(&MAXIMA[first..]).all(|(field, max)| {
        field
            .split([',', '-', '/'])
            .enumerate()
            .all(|(at, part)| match part.parse::<u32>() {
                Ok(number) => number <= *max || (at > 0 && field.contains('/')),
                Err(_) => {
                    matches!(part, "*" | "?" | "L")
                        || (part.len() == 3
                            && part.chars().all(|c| c.is_ascii_alphabetic())
                            && *max < 13)
                        || part.contains(['#', 'L', 'W'])
                }
            })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::check;
    use super::*;

    fn messages(nodes: &Value, connections: &Value) -> String {
        let draft = json!({"name": "W", "nodes": nodes, "connections": connections});
        let draft = Draft::read(draft.as_object().unwrap().clone()).unwrap();
        let found = check(&draft).into_iter();
        found
            .map(|one| format!("{}: {}\n", one.node.unwrap_or_default(), one.message))
            .collect()
    }

    fn node(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
        json!({"name": name, "type": format!("n8n-nodes-base.{kind}"), "typeVersion": version,
            "parameters": parameters})
    }

    fn to(names: &[&str]) -> Value {
        let target = |name: &&str| json!([{"node": name, "type": "main", "index": 0}]);
        json!({"main": names.iter().map(target).collect::<Vec<_>>()})
    }

    #[test]
    fn faults_of_the_flow_are_found() {
        let hook = |mode: &str| {
            node(
                "H",
                "webhook",
                2.0,
                json!({"path": "p", "responseMode": mode}),
            )
        };
        let set = |name: &str| node(name, "set", 3.4, json!({}));
        let cycle = json!({"H": to(&["A"]), "A": to(&["B"]), "B": to(&["A"])});
        let far = json!({"H": to(&["A"]), "A": to(&["B", "B"])});
        let batches = |version| node("L", "splitInBatches", version, json!({}));
        let swapped = json!({"H": to(&["L"]), "L": to(&["A", "B"]), "A": to(&["L"])});
        let respond = node("R", "respondToWebhook", 1.1, json!({}));
        let plain = hook("lastNode");
        for (nodes, connections, part) in [
            (
                json!([plain, set("A"), set("B")]),
                cycle,
                "A: It is in a cycle",
            ),
            (
                json!([plain, set("A"), set("B")]),
                far,
                "A: It has no output 1",
            ),
            (
                json!([plain, batches(3.0), set("A"), set("B")]),
                swapped.clone(),
                "L: Its outputs are swapped",
            ),
            (
                json!([hook("responseNode"), set("A")]),
                json!({"H": to(&["A"])}),
                "H: It waits for a node",
            ),
            (
                json!([plain, respond]),
                json!({"H": to(&["R"])}),
                "R: No webhook waits",
            ),
        ] {
            let found = messages(&nodes, &connections);
            assert!(found.contains(part), "{found}");
        }
        let nodes = json!([plain, batches(2.0), set("A"), set("B")]);
        assert_eq!(messages(&nodes, &swapped), "");
    }

    #[test]
    fn parameters_that_fail_in_a_run_are_found() {
        for (kind, parameters, part) in [
            ("httpRequest", json!({"url": "/x"}), "Its url is"),
            (
                "httpRequest",
                json!({"url": "=x", "specifyBody": "json", "jsonBody": "{"}),
                "not JSON",
            ),
            (
                "scheduleTrigger",
                json!({"rule": {"interval": [{"expression": "0 25 * * *"}]}}),
                "cron",
            ),
            ("code", json!({"jsCode": "a()"}), "returns no items"),
        ] {
            let found = messages(&json!([node("N", kind, 1.0, parameters)]), &json!({}));
            assert!(found.contains(part), "{found}");
        }
        for cron in [
            "0 9 * * 1-5",
            "*/15 * * * * *",
            "0 0 1,15 JAN-MAR MON",
            "0 0 L * 5#2",
        ] {
            assert!(is_cron(cron), "{cron}");
        }
    }
}
