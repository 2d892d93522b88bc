//! Finds the node that failed, with its input and its error, and guesses the cause by rules.

use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use upstream::redact::Redactor;
use upstream::text::truncate;

use super::data::ItemBudget;
use super::data::{MAX_MESSAGE, NodeError, NodeItem, NodeRun, Trace, without_stack};
use crate::expressions::visit_texts;
use crate::node::Node;
use crate::workflow::Workflow;

const MAX_INPUT_ITEMS: usize = 3;
/// Names in messages of errors: `(reading 'a')`, `Module 'fs' is disallowed`, `a.b is not a function`, `Referenced node
/// doesn't exist: A`.
const NAMED_IN_MESSAGE: &str =
    r#"['"`]([^'"`]+)['"`]|([\w$.]+) is not (?:defined|a function|iterable)|doesn't exist: (.+)"#;
/// Characters of the source of a failure.
const MAX_SOURCE: usize = 300;

/// This node failed.
#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "it would become a part of a tool's schema")]
pub struct NodeFailure {
    pub node: Option<String>,
    pub message: String,
    /// n8n says this about the message.
    pub description: Option<String>,
    /// A service answered with this status.
    pub http_status: Option<u16>,
    /// n8n gives the kind of error this name.
    pub error: Option<String>,
    /// Its code failed in this line.
    pub line: Option<u64>,
    /// This parameter is wrong.
    pub parameter: Option<String>,
    /// This line of code, expression or URL failed.
    pub source: Option<String>,
    /// It failed for so many items, and the workflow went on.
    pub handled: Option<usize>,
    /// It failed at this item, counted from 0.
    pub item: Option<u64>,
    /// Its input came from these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_from: Vec<String>,
    /// Its input had so many items in all.
    pub input_items: usize,
    /// It is the failed item, or the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Map<String, Value>>,
    /// This node used it, as an agent uses its model, or started its workflow.
    pub used_by: Option<String>,
}

/// The failure of an execution; `None` if n8n saved no error.
pub fn find_failure(trace: &Trace, redactor: &Redactor) -> Option<NodeFailure> {
    let (node, error) = match &trace.error {
        Some(error) => {
            // The error of a sub-workflow has the name of its own node.
            let named = error.node_name().map(str::to_owned);
            let ran = named.clone().filter(|node| trace.has(node));
            let node = ran.or_else(|| trace.last.clone()).or(named);
            (node, error.clone())
        }
        None => trace.nodes.iter().rev().find_map(|(name, runs)| {
            let error = runs.last()?.error.clone()?;
            Some((Some(name.clone()), error))
        })?,
    };
    // The error of an agent is that of its model or tool.
    let sub_node = node
        .as_deref()
        .and_then(|node| failed_sub_node(trace, node));
    let (node, error, used_by) = match sub_node {
        Some((name, error)) => (Some(name), error, node),
        None => (node, error, None),
    };
    let run = node.as_deref().and_then(|node| trace.runs(node)?.last());
    let source = run.filter(|run| is_sub_node(run)).and_then(|run| {
        let mut sources = run.source.iter().flatten();
        Some(sources.next()?.previous_node.clone())
    });
    let used_by = used_by.or(source);
    let number = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64(),
        None => None,
    };
    let context = error.context.clone().unwrap_or_default();
    let item = number(&context.item_index);
    let (input_from, input_items, input) = input(trace, run, item, redactor);
    Some(NodeFailure {
        message: error.text(redactor),
        description: description(&error, redactor),
        http_status: number(&error.http_code).and_then(|code| code.try_into().ok()),
        line: number(&error.line_number),
        parameter: context.parameter,
        item,
        error: error.name,
        node,
        input_from,
        input_items,
        input,
        used_by,
        ..NodeFailure::default()
    })
}

impl NodeFailure {
    /// Fills in what failed, from the parameters of the node.
    pub fn find_source(&mut self, node: &Node, redactor: &Redactor) {
        let code = ["jsCode", "pythonCode", "functionCode"]
            .into_iter()
            .find_map(|key| node.text(key));
        let line = self
            .line
            .and_then(|line| usize::try_from(line).ok()?.checked_sub(1));
        let line = code.and_then(|code| match line {
            Some(line) => code.lines().nth(line),
            None => named_line(code, &self.message),
        });
        let mut expressions = Vec::new();
        visit_texts(node.parameters(), "", &mut |path, text| {
            // n8n names the parameter itself, or the one around it.
            let path = format!(".{path}.").replace('[', ".[");
            let is_it = |parameter: &String| path.contains(&format!(".{parameter}."));
            if text.starts_with('=') && self.parameter.as_ref().is_none_or(is_it) {
                expressions.push(text.to_owned());
            }
        });
        let all = expressions.join("\n");
        let expression = match expressions.as_slice() {
            _ if code.is_some() => None,
            [only] => Some(only.as_str()),
            _ => named_line(&all, &self.message),
        };
        // An error of the node itself is about its other parameters.
        let is_about_url = match self.parameter.as_deref() {
            Some(parameter) => parameter == "url",
            None => {
                self.error.as_deref() != Some("NodeOperationError") || self.message.contains("URL")
            }
        };
        let url = node.text("url").filter(|_| is_about_url);
        let found = line.or(url).or(expression);
        self.source = found.map(|text| truncate(&redactor.text(text.trim()), MAX_SOURCE));
    }
}

/// The only line of code, or of expressions, with what the message of an error names.
fn named_line<'a>(code: &'a str, message: &str) -> Option<&'a str> {
    static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NAMED_IN_MESSAGE).ok());
    let named = NAMED.as_ref()?.captures(message);
    let named = named.and_then(|found| found.iter().skip(1).flatten().next());
    let parts = match named {
        Some(named) => vec![named.as_str()],
        None if message.contains("env vars") => vec!["$env", "process.env"],
        None => return None,
    };
    let is_named = |line: &&str| parts.iter().any(|part| line.contains(part));
    let mut lines = code.lines().filter(is_named);
    lines.next().filter(|_| lines.next().is_none())
}

/// The last node whose errors the workflow handled.
pub fn find_handled(
    trace: &Trace,
    workflow: &Workflow,
    redactor: &Redactor,
) -> Option<NodeFailure> {
    let error = |item: &NodeItem| {
        let item: Value = serde_json::from_str(item.json.get()).ok()?;
        let error = item.get("error")?;
        error
            .get("message")
            .unwrap_or(error)
            .as_str()
            .map(str::to_owned)
    };
    trace.nodes.iter().rev().find_map(|(name, runs)| {
        let mut nodes = workflow.nodes.iter();
        nodes.find(|node| node.name() == name && node.handles_errors())?;
        let run = runs.last()?;
        let errors: Vec<String> = run.items().filter_map(error).collect();
        let message = redactor.text(without_stack(errors.first()?));
        let (input_from, input_items, input) = input(trace, Some(run), None, redactor);
        Some(NodeFailure {
            node: Some(name.clone()),
            message: truncate(&message, MAX_MESSAGE),
            handled: Some(errors.len()),
            input_from,
            input_items,
            input,
            ..NodeFailure::default()
        })
    })
}

/// The last node that failed while `user` used it through a connection that carries no items.
fn failed_sub_node(trace: &Trace, user: &str) -> Option<(String, NodeError)> {
    trace.nodes.iter().rev().find_map(|(name, runs)| {
        let run = runs.last()?;
        let is_used = run
            .source
            .iter()
            .flatten()
            .any(|it| it.previous_node == user);
        let error = run.error.clone().filter(|_| is_used && is_sub_node(run))?;
        Some((name.clone(), error))
    })
}

/// True for a model or tool, whose connection carries no items.
fn is_sub_node(run: &NodeRun) -> bool {
    let kinds = run.data.as_ref();
    kinds.is_some_and(|kinds| !kinds.is_empty() && !kinds.contains_key("main"))
}

/// The names of the nodes that the input of `run` came from, the number of its items, and the first
/// of them or the failed one.
pub(super) fn input(
    trace: &Trace,
    run: Option<&NodeRun>,
    item: Option<u64>,
    redactor: &Redactor,
) -> (Vec<String>, usize, Vec<Map<String, Value>>) {
    let run = run.filter(|run| !is_sub_node(run));
    let sources = run.into_iter().flat_map(|run| run.source.iter().flatten());
    let mut from = Vec::new();
    let mut items = Vec::new();
    for source in sources {
        from.push(source.previous_node.clone());
        let runs = trace.runs(&source.previous_node).unwrap_or_default();
        let run = source.previous_node_run.unwrap_or_default();
        let output = source.previous_node_output.unwrap_or_default();
        let before = runs.get(run).or(runs.last());
        items.extend(before.into_iter().flat_map(|run| run.output(output)));
    }
    let count = items.len();
    // The first ones unless the failed one is not among them.
    let item = item.and_then(|item| usize::try_from(item).ok());
    let first = item.filter(|item| (MAX_INPUT_ITEMS..count).contains(item));
    let items = items.into_iter().skip(first.unwrap_or_default());
    let limit = if first.is_some() { 1 } else { MAX_INPUT_ITEMS };
    let shown = ItemBudget::new(redactor).items(items, limit);
    (from, count, shown)
}

fn description(error: &NodeError, redactor: &Redactor) -> Option<String> {
    let text = error.description.as_ref()?.as_str()?.trim();
    let is_new = !text.is_empty() && Some(text) != error.message.as_deref();
    is_new.then(|| {
        let text = redactor.text(&without_tags(text));
        truncate(without_stack(&text), MAX_MESSAGE)
    })
}

/// The words of an HTML text.
fn without_tags(text: &str) -> String {
    static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("</?[a-z][^<>]*>").ok());
    let Some(tag) = TAG.as_ref().filter(|tag| tag.is_match(text)) else {
        return text.to_owned();
    };
    let words = tag.replace_all(text, " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The probable cause of a failure, and what to try; one sentence each.
pub struct Cause {
    /// The probable cause.
    pub cause: &'static str,
    /// A remedy to try.
    pub advice: &'static str,
}

/// Rules of three lines: parts of the message or the description in lower case, separated by bars, any of which matches;
/// the cause; the advice.
const RULES: &str = "\
\"supplydata\" method but no \"execute\"
The node is a part of another one, such as the model or memory of an agent, and a `main` connection leads to it.
Remove that connection, and connect the node by its ai_ kind to the node that uses it.

access to env vars denied
n8n does not let workflows read its environment variables.
Use a credential or a variable of n8n ($vars), or let n8n's operator set N8N_BLOCK_ENV_ACCESS_IN_NODE=false.

cancelled because it timed out
The execution took longer than its workflow may.
Make it faster, or raise executionTimeout in the settings of the workflow.

wrong type:
A condition compares values of another type than it expects.
Turn on Convert types where required in the node, or convert the value in the expression: .toNumber(), .toString().

no respond to webhook node
The webhook leaves its answer to a Respond to Webhook node, and the workflow has none.
Add that node, or set the webhook's parameter responseMode to lastNode or onReceived.

is disallowed
n8n does not allow code to load this module.
Do without it, or let n8n's operator list it in NODE_FUNCTION_ALLOW_BUILTIN or NODE_FUNCTION_ALLOW_EXTERNAL.

doesn't return items properly|did not return items|return an array of objects
The code returns something else than items.
Return a list of objects such as [{json: {name: value}}]; an empty list for none.

referenced node doesn't exist|referenced node does not exist
An expression of the node names a node that the workflow does not have.
Write the name in $('…') as the node is called now; get_workflow lists the nodes.

invalid syntax
An expression of the node has a syntax error.
Correct what stands between {{ and }} in the parameter named here.

workflow is not active and cannot be executed|workflow does not exist|could not find workflow
The workflow that the node starts does not exist or is not published.
Choose another workflow in the node, or activate that one.

credentials not found|does not have any credentials|no credentials|credential with id|credentials of type
The node has no credentials, or they were deleted or not shared with the workflow's project.
Choose credentials in the node; list_credentials (toolset credentials) shows the credentials that exist.

authorization failed|unauthorized|invalid api key|invalid_auth|authentication failed|expired token|token expired|\
invalid_grant
The service refuses the credentials of the node: wrong, expired or revoked.
Renew the credentials in n8n and retry the execution.

forbidden|insufficient permission|insufficient scope|access denied|permission denied
The credentials are valid but may not do this.
Give their account or scope the permission, then retry the execution.

too many requests|rate limit|quota
The service limits the rate of requests.
Put a Wait or Loop node before it, or set batching and Retry On Fail in the node; retry later.

timeout|timed out|etimedout|econnaborted
The service did not answer in time.
Retry the execution; if it happens again, ask for less at once or raise the timeout of the node.

econnrefused|refused the connection|perhaps it is offline|enotfound|eai_again|econnreset|ehostunreach|getaddrinfo|\
connection cannot be established|connect to the server|connection error|unable to verify|certificate
n8n cannot connect to the address in the node: wrong host or port, the service is down, or its certificate is not \
trusted.
Check the URL as n8n's own machine sees it: localhost is n8n itself.

could not be found|not found - |resource you are requesting
What the node asks for does not exist at that address.
Check the URL or the id in the node's parameters against its input.

bad request
The service does not accept the request: a parameter is missing or has the wrong form.
Compare the parameters of the node with its input; an expression may have been empty.

service was not able to process|internal server error|bad gateway|service unavailable
The service itself failed.
Retry the execution later; set Retry On Fail in the node if it happens often.

cannot read propert|undefined|is not a function|is not iterable|is not defined|no path back|referenced node|\
expressionerror|can't determine which item
The code or expression uses something that its input does not have.
Compare the names in it with the input shown here; an earlier node may have returned no items or items with other \
fields.

unexpected token|json parse|is not valid json|valid json|syntaxerror|invalid json|invalid syntax
Something that should be JSON or code cannot be parsed.
Look at the text that the node parses, often an expression inside of quotes or a model's answer.

could not find property option|parameter|is required|required field|unrecognized node type|unknown node type
The node is not set up: a parameter is missing or is one that this version of the node does not have.
get_node (toolset nodes) shows the parameters; set them in the workflow.

out of memory|heap|out-of-memory
n8n ran out of memory.
Process fewer items at once (Loop Over Items), keep files out of the items, or give n8n more memory.

task runner|runner became unresponsive|task request timed out|task execution timed out
The code did not finish in time, or used up its runner: a loop without an end or too much data.
Look for a loop that does not end and process fewer items at once; else check that n8n's task runners are up.
";

impl Cause {
    /// The cause if n8n crashed during the execution.
    pub const CRASH: Self = Self {
        cause: "n8n itself was stopped or ran out of memory while this ran.",
        advice: "Read n8n's log; if memory was the cause, process fewer items at once. Then retry.",
    };

    /// The cause of a failure; `node_type` is the type of the node that failed.
    pub fn from_failure(failed: &NodeFailure, node_type: Option<&str>) -> Self {
        let name = node_type.and_then(|kind| kind.rsplit('.').next());
        if name == Some("stopAndError") {
            return Self {
                cause: "The workflow ended itself on purpose: a Stop and Error node was reached.",
                advice: "Look at the condition that leads to it, and at the input shown here.",
            };
        }
        let description = failed.description.as_deref().unwrap_or_default();
        let text = match failed.http_status {
            Some(401) => "unauthorized".to_owned(),
            Some(403) => "forbidden".to_owned(),
            Some(429) => "too many requests".to_owned(),
            Some(408 | 504) => "timed out".to_owned(),
            Some(404) => "could not be found".to_owned(),
            Some(400 | 409 | 415 | 422) => "bad request".to_owned(),
            Some(500 | 502 | 503) => "internal server error".to_owned(),
            _ => format!("{} {description}", failed.message).to_lowercase(),
        };
        let mut rules = RULES.split("\n\n").filter_map(|rule| {
            let mut lines = rule.lines();
            let mut parts = lines.next()?.split('|');
            let (cause, advice) = lines.next().zip(lines.next())?;
            let is_it = parts.any(|part| text.contains(part));
            is_it.then_some(Self { cause, advice })
        });
        match rules.next() {
            Some(found) => found,
            None if matches!(name, Some("code" | "function" | "functionItem")) => Self {
                cause: "The code of the node threw an error.",
                advice: match failed.source {
                    Some(_) => "Read the line of code with the input shown here.",
                    None => "Read the code (get_workflow with `nodes`) with the input shown here.",
                },
            },
            None => Self {
                cause: "This kind of failure is not known; read the message.",
                advice: "Compare the node's parameters (get_workflow with `nodes`) with its input.",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_the_only_one_with_what_the_message_names() {
        let code = "const a = input.first;\nconst b = a.missing.field;\nlet home = $env.HOME;\nreturn a(b)";
        for (message, line) in [
            (
                "Cannot read properties of undefined (reading 'field')",
                Some(1),
            ),
            ("home2 is not defined", None),
            ("input.first is not a function", Some(0)),
            ("access to env vars denied", Some(2)),
            // Two lines have it.
            ("Cannot read properties of null (reading 'a')", None),
            ("boom", None),
        ] {
            let expected = line.and_then(|at: usize| code.lines().nth(at));
            assert_eq!(named_line(code, message), expected, "{message}");
        }
    }
}
