//! Publishes each active workflow with a certain tag as a tool.
//!
//! Polls n8n for these workflows, less often while nothing changes. The tool follows from the
//! workflow alone; calling it runs the workflow (`run`).

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::{Server, ServerItems};
use mcp_core::tool::{
    ArgumentError, BoundTool, Call, Output, Tool as _, ToolDefinition, ToolError, ToolFuture,
    as_meant,
};
use n8n_workflow::trigger::{Trigger, parameters_in_note, parameters_of, triggers, without_code};
use n8n_workflow::{Id, Node, Workflow};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use upstream::poll::Backoff;
use upstream::redact::Redactor;
use upstream::text::one_line;

use crate::outcome::Run;
use crate::run::RunWorkflow;
use crate::service::N8n;
use crate::start_method::{Access, StartMethod};
use crate::tools;

const POLL_BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(2), Duration::from_secs(30)).with_factor(1.5);
const MAX_TOOLS: usize = 250;

/// Keeps the tools of `server` in sync with the workflows of n8n.
pub(crate) async fn sync(n8n: &Arc<N8n>, server: &Server) {
    // A server without run_workflow, such as a read-only one, must not run workflows this way.
    let is_allowed = server.has_tool(RunWorkflow::NAME);
    let Some(tag) = n8n.tool_tag.as_ref().filter(|_| is_allowed) else {
        return n8n.changes.lists_published();
    };
    let mut before = Vec::new();
    let mut delays = POLL_BACKOFF.delays();
    loop {
        match read(n8n, tag).await {
            Ok(tools) if tools != before => {
                let named = names(&tools);
                tracing::info!("{} workflows are tools", named.len());
                server.publish(ServerItems {
                    tools: named
                        .into_iter()
                        .zip(&tools)
                        .filter_map(|(name, tool)| WorkflowTool::declare(n8n, name, tool))
                        .collect(),
                    ..ServerItems::default()
                });
                before = tools;
                delays.reset();
            }
            Ok(_) => {}
            // The tools stay; calling one returns the error.
            Err(error) => {
                tracing::debug!(%error, "the workflows that are tools cannot be read");
            }
        }
        n8n.changes.lists_published();
        delays.sleep().await;
    }
}

async fn read(n8n: &N8n, tag: &str) -> Result<Vec<ToolSpec>, ToolError> {
    let workflows = n8n
        .api
        .all_workflows(&[("tags", tag), ("active", "true")])
        .await?;
    let access = n8n.access()?;
    let policy = &n8n.api.policy;
    let is_open =
        |workflow: &&Workflow| policy.admits(workflow) && policy.check_start(workflow).is_ok();
    let open = workflows.iter().filter(is_open);
    let mut tools: Vec<_> = open
        .filter_map(|workflow| tool_spec(workflow, &access, &n8n.redactor()))
        .collect();
    tools.sort_by(|a, b| a.workflow.as_str().cmp(b.workflow.as_str()));
    tools.truncate(MAX_TOOLS);
    Ok(tools)
}

/// Short, since every turn of a conversation costs its tokens.
const MAX_DESCRIPTION: usize = 400;

/// The definition of a tool that runs a workflow.
#[derive(Clone, Debug, PartialEq)]
struct ToolSpec {
    workflow: Id,
    /// The name of the workflow.
    title: String,
    description: String,
    /// The name of the trigger node.
    trigger: String,
    /// JSON Schema of the arguments.
    input: Value,
}

impl ToolSpec {
    /// Parses the arguments as they are meant; checks only that the required ones are there.
    fn read(&self, arguments: &RawValue) -> Result<Map<String, Value>, ArgumentError> {
        let parameters: Map<String, Value> =
            serde_json::from_str(&as_meant(arguments, &self.input))
                .map_err(|_| ArgumentError::new("", "arguments must be a JSON object"))?;
        let required = self.input["required"].as_array();
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        match required.find(|name| !parameters.contains_key(*name)) {
            Some(missing) => Err(ArgumentError::new(missing, "Required field missing")),
            None => Ok(parameters),
        }
    }
}

/// The tool for `workflow`; `None` if this server cannot run it.
fn tool_spec(workflow: &Workflow, access: &Access, redactor: &Redactor) -> Option<ToolSpec> {
    if !workflow.active || workflow.is_archived {
        return None;
    }
    let all = triggers(workflow);
    let startable = all
        .iter()
        .filter_map(|trigger| Some((trigger, access.way(trigger).ok()?)));
    // A test is not a run.
    let real = startable.filter(|(_, way)| *way != StartMethod::McpTest);
    let (trigger, _) = real.min_by_key(|(trigger, way)| way.rank(trigger.kind))?;
    let notes: Vec<&str> = workflow.live_nodes().iter().filter_map(note).collect();
    let input = notes.iter().find_map(|note| parameters_in_note(note));
    let mut input = input.unwrap_or_else(|| parameters_of(trigger));
    redactor.json(&mut input);
    let description = redactor.text(&describe(workflow, trigger, &notes));
    Some(ToolSpec {
        workflow: workflow.id.clone(),
        title: workflow.name.clone(),
        // Afterwards, as a part of a secret does not look like one.
        description: one_line(&description, MAX_DESCRIPTION),
        trigger: trigger.node.name().to_owned(),
        input,
    })
}

fn note(node: &Node) -> Option<&str> {
    let is_note = node.kind().ends_with(".stickyNote");
    node.text("content").filter(|_| is_note)
}

/// The workflow's description, else its first note, else its name.
fn describe(workflow: &Workflow, trigger: &Trigger<'_>, notes: &[&str]) -> String {
    let own = workflow.description.as_deref().map(str::trim);
    let notes = notes.iter().map(|note| without_code(note));
    own.filter(|text| !text.is_empty())
        .map(str::to_owned)
        .or_else(|| notes.into_iter().find(|note| !note.is_empty()))
        .unwrap_or_else(|| {
            format!(
                "Runs the n8n workflow \"{}\" ({}).",
                workflow.name, trigger.kind
            )
        })
}

struct WorkflowTool {
    n8n: Arc<N8n>,
    spec: ToolSpec,
}

impl WorkflowTool {
    /// The tool and its definition; `None` if the schema from a note in the workflow is not valid.
    fn declare(
        n8n: &Arc<N8n>,
        name: String,
        spec: &ToolSpec,
    ) -> Option<(ToolDefinition, Arc<dyn BoundTool>)> {
        let item = json!({
            "title": spec.title,
            "description": spec.description,
            "inputSchema": spec.input,
            "outputSchema": Run::schema(),
            // The effects of the workflow are unknown.
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
        });
        let item = to_raw_value(&item).ok()?;
        let definition = ToolDefinition::from_backend(name.clone(), name, &item);
        let mut definition = definition
            .inspect_err(|error| {
                tracing::warn!(error, "workflow {} is not offered as a tool", spec.workflow)
            })
            .ok()?;
        definition.task = RunWorkflow::TASK;
        let tool = Self {
            n8n: Arc::clone(n8n),
            spec: spec.clone(),
        };
        Some((definition, Arc::new(tool)))
    }
}

impl BoundTool for WorkflowTool {
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<ToolFuture<'a>, ArgumentError> {
        let parameters = self.spec.read(arguments)?;
        let run = json!({"workflow_id": self.spec.workflow, "trigger": self.spec.trigger,
            "parameters": parameters});
        let run: RunWorkflow = serde_json::from_value(run)
            .map_err(|error| ArgumentError::new("", error.to_string()))?;
        Ok(Box::pin(async move {
            let run = run.call(&self.n8n, call).await?;
            run.into_result().map_err(|error| {
                ToolError::upstream("The result could not be written as JSON.").caused_by(error)
            })
        }))
    }
}

/// The limit of MCP for the name of a tool.
const MAX_NAME_LEN: usize = 64;
/// Characters of an id that are enough to distinguish two workflows.
const ID_SUFFIX_LEN: usize = 6;

/// A name for each tool. A name that two workflows share, or that a tool of the server has, gets a
/// part of the workflow's id: so no name depends on the order in which workflows were created.
fn names(tools: &[ToolSpec]) -> Vec<String> {
    let built_in = tools::all().definitions();
    let ids = tools.iter().map(|tool| tool.workflow.as_str());
    let slugs: Vec<String> = tools
        .iter()
        .zip(ids.clone())
        .map(|(tool, id)| slug(&tool.title, id))
        .collect();
    let is_taken = |name: &String| {
        built_in.iter().any(|tool| tool.name == *name)
            || slugs.iter().filter(|other| *other == name).count() > 1
    };
    let name = |(slug, id): (&String, &str)| match is_taken(slug) {
        true => with_id(slug, id),
        false => slug.clone(),
    };
    slugs.iter().zip(ids).map(name).collect()
}

/// Letters with marks, and what stands for them in a name.
const PLAIN: [(&str, &str); 11] = [
    ("àáâãäå", "a"),
    ("ç", "c"),
    ("èéêë", "e"),
    ("ìíîï", "i"),
    ("ñ", "n"),
    ("òóôõöø", "o"),
    ("ùúûü", "u"),
    ("ýÿ", "y"),
    ("ß", "ss"),
    ("æ", "ae"),
    ("œ", "oe"),
];

/// The name for a title: `hello_world` for `Hello, World!`.
fn slug(title: &str, id: &str) -> String {
    let mut name = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if let Some((_, plain)) = PLAIN.iter().find(|(letters, _)| letters.contains(c)) {
            name.push_str(plain);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.truncate(MAX_NAME_LEN);
    let name = name.trim_end_matches('_');
    if name.is_empty() {
        with_id("workflow", id)
    } else {
        name.to_owned()
    }
}

fn with_id(name: &str, id: &str) -> String {
    let letters = id.chars().filter(char::is_ascii_alphanumeric);
    let part: String = letters.take(ID_SUFFIX_LEN).collect();
    let end = name.len().min(MAX_NAME_LEN - ID_SUFFIX_LEN - 1);
    format!("{}_{part}", &name[..end])
}

#[cfg(test)]
mod tests {
    use n8n_workflow::Id;
    use serde_json::json;

    use super::*;

    fn tool(id: &str, title: &str) -> ToolSpec {
        ToolSpec {
            workflow: Id::try_from(id.to_owned()).unwrap(),
            title: title.into(),
            description: String::new(),
            trigger: String::new(),
            input: json!({}),
        }
    }

    #[test]
    fn arguments_are_read_as_they_are_meant() {
        let mut tool = tool("a1b2c3d4", "Count");
        tool.input = json!({
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "note": {"type": "string"},
                "end": {"type": ["string", "null"]},
            },
            "required": ["count"],
        });
        for (given, meant) in [
            (r#"{"count":"5","toolCallId":"x"}"#, json!({"count": 5})),
            (
                r#"{"count":5.0,"tags":"[\"a\",1]"}"#,
                json!({"count": 5, "tags": ["a", "1"]}),
            ),
            (r#"{"count":5,"tags":"","note":null}"#, json!({"count": 5})),
            (
                r#"{"count":5,"note":"","end":null}"#,
                json!({"count": 5, "note": "", "end": null}),
            ),
            (
                r#"{"count":"many","more":"1"}"#,
                json!({"count": "many", "more": "1"}),
            ),
        ] {
            let given = RawValue::from_string(given.to_owned()).unwrap();
            assert_eq!(Value::from(tool.read(&given).unwrap()), meant);
        }
        let nothing = RawValue::from_string("{}".to_owned()).unwrap();
        assert_eq!(tool.read(&nothing).unwrap_err().field, "count");
    }

    #[test]
    fn names_are_valid_and_unique() {
        let long = "x y".repeat(40);
        let tools = [
            tool("a1b2c3d4", "Hello, World!"),
            tool("e5f6g7h8", "Send mail"),
            tool("i9j0k1l2", "send-MAIL"),
            tool("m3n4o5p6", "List workflows"),
            tool("q7r8s9t0", "日本"),
            tool("y5z6a7b8", "Überweisung prüfen"),
            tool("u1v2w3x4", &long),
        ];
        let names = names(&tools);
        let expected = "hello_world send_mail_e5f6g7 send_mail_i9j0k1 list_workflows_m3n4o5 \
                        workflow_q7r8s9 uberweisung_prufen";
        assert_eq!(names[..6].join(" "), expected);
        assert!(names[6].len() <= MAX_NAME_LEN);
    }
}
