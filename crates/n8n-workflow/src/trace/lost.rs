//! Finds where a completed execution lost the data that its last node should have put out.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use upstream::redact::Redactor;

use super::data::{InputSource, NodeRun, Trace};
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
    let search = Search { trace, workflow };
    let run = search.run(last)?;
    // A filter puts out what it leaves out, too.
    let is_filter = search.kind(last) == "filter";
    let is_empty = run.items().next().is_none() || (is_filter && run.output(0).is_empty());
    let found = match is_empty {
        true => search.no_items(last),
        false => match gap(&first_item(run)?) {
            Some(member) => search.no_value(last, &member),
            None => search.unconnected(last, run),
        },
    };
    let (node, message, cause, advice) = found?;
    let (input_from, input_items, input) = input(trace, search.run(&node), None, redactor);
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
        let node = self.origin(last, |_, items| !items.is_empty());
        let run = self.run(&node)?;
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
        // The node that has set it: the ones behind it only pass it on.
        let node = self.origin(last, |node, items| {
            let is_passed_on = items.first().is_some_and(|item| is_null(item, member));
            self.expression(node, member).is_some() || !is_passed_on
        });
        let message = format!("The output has no value for `{member}`.");
        let plain = format!("{node:?} put out null for `{member}`.");
        let look = "Compare its parameters with the input shown here.";
        let Some(expression) = self.expression(&node, member) else {
            return Some((node, message, plain, look));
        };
        let run = self.run(&node)?;
        let reference = REFERENCES.as_ref()?;
        for found in reference.0.captures_iter(&expression) {
            let names = ["double", "single", "old"]
                .iter()
                .find_map(|it| found.name(it));
            let path: Vec<String> = steps(&reference.1, &found["path"]);
            let text = &found[0];
            let (source, item) = match names {
                Some(name) => {
                    let item = self.run(name.as_str()).and_then(first_item);
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
            let (node, cause, advice) = if let Some((by, had)) = self.dropped(&source, &path) {
                (
                    by.clone(),
                    format!("{cause} {had:?} still had it; {by:?} left it out."),
                    "Let that node pass on its other input fields (Set: includeOtherFields), or refer \
                     to the earlier node: $('Node').item.json.",
                )
            } else if let Some(off) = self.disabled(&source) {
                let cause =
                    format!("{cause} {off:?} is disabled: it passes its input on unchanged.");
                (
                    off,
                    cause,
                    "Enable that node, or take the value from another one.",
                )
            } else {
                (
                    node,
                    cause,
                    "Correct the path in the expression, or pass the value when the workflow is run.",
                )
            };
            return Some((node, message, cause, advice));
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
        let outputs = outputs.iter().enumerate();
        let mut connected = outputs.filter_map(|(at, output)| is_connected(output).then_some(at));
        let index = connected.clone().next()?;
        let count = run.items().count();
        connected.all(|at| run.output(at).is_empty()).then(|| {
            (
                last.to_owned(),
                format!("The nodes behind output {index} of {last:?} did not run."),
                format!("All {count} items left {last:?} through an output without a connection."),
                "Check its conditions against the input shown here, or connect the other output.",
            )
        })
    }

    /// The last run of a node.
    fn run(&self, node: &str) -> Option<&'a NodeRun> {
        self.trace.runs(node)?.last()
    }

    /// The first node from `last` backwards for which `is_it`, with its input; else the farthest.
    fn origin(&self, last: &str, is_it: impl Fn(&str, &[Value]) -> bool) -> String {
        let all = self.ancestors(last);
        let found = all.iter().find(|node| {
            let before = self.run(node).and_then(|run| self.before(run));
            before.is_none_or(|(_, items)| is_it(node, &items))
        });
        found.or(all.last()).cloned().unwrap_or_default()
    }

    /// The node before `run`, with the items that it passed on.
    fn before(&self, run: &NodeRun) -> Option<(String, Vec<Value>)> {
        let source = source(run)?;
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
            let run = all.last().and_then(|node| self.run(node));
            let before = run.and_then(source).map(|source| &source.previous_node);
            match before {
                Some(before) if self.trace.has(before) && !all.contains(before) => {
                    all.push(before.clone());
                }
                _ => break,
            }
        }
        all
    }

    /// The node that left `path` out, and the one before it, which had it.
    fn dropped(&self, source: &str, path: &[String]) -> Option<(String, String)> {
        let all = self.ancestors(source);
        let has = |node: &String| {
            let item = self.run(node).and_then(first_item);
            item.is_some_and(|item| first_missing(&item, path).is_none())
        };
        let found = all.windows(2).find(|pair| has(&pair[1]))?;
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

/// The run that the input of another came from, the first if there are several.
fn source(run: &NodeRun) -> Option<&InputSource> {
    run.source.iter().flatten().next()
}

fn first_item(run: &NodeRun) -> Option<Value> {
    serde_json::from_str(run.items().next()?.json.get()).ok()
}

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
