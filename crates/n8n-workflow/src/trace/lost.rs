//! Finds where a completed execution lost the data that its last node should have put out.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use upstream::redact::Redactor;

use super::data::{NodeRun, Trace};
use super::failure::{NodeFailure, input};
use crate::node_type::last_part;
use crate::workflow::{Node, Workflow};

/// References of an expression to the data of nodes: `$json.a.b`, `$('Node').item.json.a["b"]`.
const REFERENCE: &str = r#"(?:\$json|\$\(\s*(?:"(?<double>[^"]+)"|'(?<single>[^']+)')\s*\)\.(?:item|first\(\)|last\(\))\.json|\$node\["(?<old>[^"]+)"\]\.json)(?<path>(?:\??\.[A-Za-z_$][\w$]*|\[["'][^"']+["']\]|\[\d+\])+)"#;
const STEP: &str = r#"[A-Za-z_$][\w$]*|\d+|["']([^"']+)["']"#;
/// Nodes that are followed backwards; a loop is followed only so far.
const MAX_NODES: usize = 200;

/// A node that lost data, and why; the cause and the advice are one sentence each.
pub struct Loss {
    /// The node that lost it, with its input.
    pub failed: NodeFailure,
    /// The place and the reason.
    pub cause: String,
    /// A remedy to try.
    pub advice: &'static str,
}

/// The first node that lost what is missing in the output of the last one; `None` if there is an output
/// without gaps.
pub fn find_loss(trace: &Trace, workflow: &Workflow, redactor: &Redactor) -> Option<Loss> {
    let last = trace.last.as_deref()?;
    let run = trace.runs(last)?.last()?;
    let search = Search { trace, workflow };
    // A filter puts out what it leaves out, too.
    let is_filter = search.kind(last) == "filter";
    let items = run.items().next();
    let found = match items.filter(|_| !is_filter || !run.output(0).is_empty()) {
        None => search.no_items(last),
        Some(item) => {
            let item: Value = serde_json::from_str(item.json.get()).ok()?;
            match gap(&item) {
                Some(member) => search.no_value(last, &member),
                None => search.unconnected(last, run),
            }
        }
    };
    let (node, message, cause, advice) = found?;
    let run = trace.runs(&node).and_then(<[_]>::last);
    let (input_from, input_items, input) = input(trace, run, None, redactor);
    Some(Loss {
        failed: NodeFailure {
            node: Some(node),
            message: redactor.text(&message),
            input_from,
            input_items,
            input,
            ..NodeFailure::default()
        },
        cause: redactor.text(&cause),
        advice,
    })
}

/// The node, what is missing, the cause, and the advice.
type Found = (String, String, String, &'static str);

struct Search<'a> {
    trace: &'a Trace,
    workflow: &'a Workflow,
}

impl<'a> Search<'a> {
    /// The first node that received items and put out none.
    fn no_items(&self, last: &str) -> Option<Found> {
        let mut node = last.to_owned();
        for _ in 0..MAX_NODES {
            let run = self.trace.runs(&node)?.last()?;
            let before = self.before(run);
            match before {
                Some((before, items)) if items.is_empty() => node = before,
                _ => break,
            }
        }
        let run = self.trace.runs(&node)?.last()?;
        let count = self.before(run).map_or(0, |(_, items)| items.len());
        let (cause, advice) = match self.kind(&node) {
            "filter" | "if" | "switch" => (
                format!("None of its {count} items met the conditions of {node:?}."),
                "Compare the conditions with the input shown here: types, upper case, and expressions \
                 that give null.",
            ),
            "code" => (
                format!("The code of {node:?} returned no items."),
                "Return one object for each item: [{json: {…}}].",
            ),
            _ => (
                format!("{node:?} put out no items, so that no node behind it ran."),
                "Look at its parameters and at the service behind it; the setting Always Output Data \
                 lets the workflow go on.",
            ),
        };
        let message = format!("The output is empty: {node:?} put out no items.");
        Some((node, message, cause, advice))
    }

    /// The first node without the value that the expression of `last` for `member` uses.
    fn no_value(&self, last: &str, member: &str) -> Option<Found> {
        let mut node = last.to_owned();
        // The node that has set it: the ones behind it only pass it on.
        for _ in 0..MAX_NODES {
            let run = self.trace.runs(&node)?.last()?;
            if self.expression(&node, member).is_some() {
                break;
            }
            match self.before(run) {
                Some((before, items))
                    if items.first().is_some_and(|item| is_null(item, member)) =>
                {
                    node = before;
                }
                _ => break,
            }
        }
        let message = format!("The output has no value for `{member}`.");
        let plain = format!("{node:?} put out null for `{member}`.");
        let look = "Compare its parameters with the input shown here.";
        let Some(expression) = self.expression(&node, member) else {
            return Some((node, message, plain, look));
        };
        let run = self.trace.runs(&node)?.last()?;
        let reference = LazyLock::force(&REFERENCES).as_ref()?;
        for found in reference.0.captures_iter(&expression) {
            let names = ["double", "single", "old"]
                .iter()
                .find_map(|it| found.name(it));
            let path: Vec<String> = steps(&reference.1, &found["path"]);
            let text = &found[0];
            let (source, item) = match names {
                Some(name) => {
                    let run = self.trace.runs(name.as_str()).and_then(<[_]>::last);
                    let item = run.and_then(|run| run.items().next());
                    let item = item.and_then(|item| serde_json::from_str(item.json.get()).ok());
                    (name.as_str().to_owned(), item.unwrap_or_default())
                }
                None => {
                    let (source, items) = self.before(run)?;
                    (source, items.into_iter().next().unwrap_or_default())
                }
            };
            let Some(missing) = first_missing(&item, &path) else {
                continue;
            };
            let has = match parent(&item, &path[..missing]) {
                Some(Value::Object(members)) if !members.is_empty() => {
                    let names: Vec<_> = members.keys().take(12).map(String::as_str).collect();
                    format!("it has {}", names.join(", "))
                }
                _ => "it has nothing".to_owned(),
            };
            let place = match missing {
                0 => format!("the output of {source:?}"),
                _ => format!("`{}` of {source:?}", path[..missing].join(".")),
            };
            let cause = format!(
                "`{text}` in {node:?} is null: {place} has no `{}`; {has}.",
                path[missing]
            );
            if let Some((dropped_by, had)) = self.dropped(&source, &path) {
                let cause = format!("{cause} {had:?} still had it; {dropped_by:?} left it out.");
                return Some((
                    dropped_by,
                    message,
                    cause,
                    "Let that node pass on its other input fields (Set: includeOtherFields), or refer \
                     to the earlier node: $('Node').item.json.",
                ));
            }
            if let Some(off) = self.disabled(&source) {
                let cause =
                    format!("{cause} {off:?} is disabled: it passes its input on unchanged.");
                return Some((
                    off,
                    message,
                    cause,
                    "Enable that node, or take the value from another one.",
                ));
            }
            return Some((
                node,
                message,
                cause,
                "Correct the path in the expression, or pass the value when the workflow is run.",
            ));
        }
        let cause = format!("`{expression}` in {node:?} gave null.");
        Some((node, message, cause, look))
    }

    /// The node that all items left through an output without a connection, while the nodes at the others did
    /// not run.
    fn unconnected(&self, last: &str, run: &NodeRun) -> Option<Found> {
        let outputs = self
            .workflow
            .connections
            .get(last)?
            .get("main")?
            .as_array()?;
        let is_connected = |output: &Value| output.as_array().is_some_and(|to| !to.is_empty());
        let (index, _) = outputs
            .iter()
            .enumerate()
            .find(|(index, output)| is_connected(output) && run.output(*index).is_empty())?;
        let count = run.items().count();
        let used = outputs
            .iter()
            .enumerate()
            .any(|(index, output)| is_connected(output) && !run.output(index).is_empty());
        (!used).then(|| {
            (
                last.to_owned(),
                format!("The nodes behind output {index} of {last:?} did not run."),
                format!("All {count} items left {last:?} through an output without a connection."),
                "Check its conditions against the input shown here, or connect the other output.",
            )
        })
    }

    /// The node before `run`, with the items that it passed on.
    fn before(&self, run: &NodeRun) -> Option<(String, Vec<Value>)> {
        let source = run.source.iter().flatten().next()?;
        let runs = self.trace.runs(&source.previous_node)?;
        let before = runs.get(source.previous_node_run.unwrap_or_default());
        let output = source.previous_node_output.unwrap_or_default();
        let items = before.or(runs.last())?.output(output).iter();
        let items = items.map(|item| serde_json::from_str(item.json.get()).unwrap_or_default());
        Some((source.previous_node.clone(), items.collect()))
    }

    /// The nodes before `node`, the nearest first.
    fn ancestors(&self, node: &str) -> Vec<String> {
        let mut all = vec![node.to_owned()];
        for _ in 0..MAX_NODES {
            let run = all.last().and_then(|node| self.trace.runs(node)?.last());
            match run.and_then(|run| self.before(run)) {
                Some((before, _)) if !all.contains(&before) => all.push(before),
                _ => break,
            }
        }
        all
    }

    /// The node that left `path` out, and the one before it, which had it.
    fn dropped(&self, source: &str, path: &[String]) -> Option<(String, String)> {
        let all = self.ancestors(source);
        let has = |node: &String| {
            let item = self.trace.runs(node)?.last()?.items().next()?;
            let item: Value = serde_json::from_str(item.json.get()).ok()?;
            Some(first_missing(&item, path).is_none())
        };
        let mut pairs = all.windows(2);
        let found = pairs.find(|pair| has(&pair[1]) == Some(true))?;
        Some((found[0].clone(), found[1].clone()))
    }

    fn disabled(&self, source: &str) -> Option<String> {
        let mut all = self.ancestors(source).into_iter();
        all.find(|name| self.node(name).is_some_and(|node| node.disabled))
    }

    /// The expression of a node that sets `member`.
    fn expression(&self, node: &str, member: &str) -> Option<String> {
        let node = self.node(node)?;
        let all = assignments(&Value::Object(node.parameters.clone()));
        let found = all.into_iter().find(|(name, _)| name == member)?;
        Some(found.1).filter(|text| text.starts_with('='))
    }

    fn kind(&self, name: &str) -> &'a str {
        self.node(name).map_or("", |node| last_part(&node.kind))
    }

    fn node(&self, name: &str) -> Option<&'a Node> {
        self.workflow.nodes.iter().find(|node| node.name == name)
    }
}

static REFERENCES: LazyLock<Option<(Regex, Regex)>> =
    LazyLock::new(|| Some((Regex::new(REFERENCE).ok()?, Regex::new(STEP).ok()?)));

/// The names and values that a node assigns, at any depth of its parameters.
fn assignments(parameters: &Value) -> Vec<(String, String)> {
    match parameters {
        Value::Array(all) => all.iter().flat_map(assignments).collect(),
        Value::Object(all) => {
            let text = |key: &str| all.get(key).and_then(Value::as_str).map(str::to_owned);
            match (text("name"), text("value")) {
                (Some(name), Some(value)) => vec![(name, value)],
                _ => all.values().flat_map(assignments).collect(),
            }
        }
        _ => Vec::new(),
    }
}

/// The first member of an item without a value.
fn gap(item: &Value) -> Option<String> {
    let members = item.as_object()?;
    let mut empty = members.iter().filter(|(name, _)| is_null(item, name));
    empty.next().map(|(name, _)| name.clone())
}

fn is_null(item: &Value, member: &str) -> bool {
    item.get(member).is_none_or(Value::is_null)
}

fn steps(step: &Regex, path: &str) -> Vec<String> {
    let steps = step.captures_iter(path);
    let steps = steps.map(|step| step.get(1).or(step.get(0)).map_or("", |text| text.as_str()));
    steps.map(str::to_owned).collect()
}

/// The index of the first step of `path` that `item` does not have, or has null for.
fn first_missing(item: &Value, path: &[String]) -> Option<usize> {
    (0..path.len()).find(|&at| parent(item, &path[..=at]).is_none_or(Value::is_null))
}

/// The value at `path`. Members of texts and numbers, such as their methods, are taken as given.
fn parent<'v>(item: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(item, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(all) => match step.parse::<usize>() {
            Ok(at) => all.get(at),
            Err(_) => Some(value),
        },
        Value::Null => None,
        _ => Some(value),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_expressions_are_followed_to_the_first_gap() {
        let (reference, step) = REFERENCES.as_ref().unwrap();
        let text = r#"={{ $json.body?.user["first name"] + $('A b').item.json.x[0] }}"#;
        let paths: Vec<_> = reference
            .captures_iter(text)
            .map(|found| steps(step, &found["path"]))
            .collect();
        assert_eq!(paths, [vec!["body", "user", "first name"], vec!["x", "0"]]);
        let item = json!({"body": {"user": null}, "x": [1]});
        assert_eq!(first_missing(&item, &paths[0]), Some(1));
        assert_eq!(first_missing(&item, &paths[1]), None);
        assert_eq!(gap(&json!({"a": 0, "b": null})).as_deref(), Some("b"));
    }
}
