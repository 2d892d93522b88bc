//! `get_workflow` and `list_workflows`.

use futures_util::stream::{self, StreamExt as _};
use n8n_workflow::connections::lines;
use n8n_workflow::draft::Draft;
use n8n_workflow::node_type::runs_code;
use n8n_workflow::trigger::{Trigger, TriggerKind, parameters_of, triggers};
use n8n_workflow::{Node, UnpublishedDraft, Workflow};

use super::authoring::redacted;
use crate::api::Rest;
use crate::start_method::Access;
use crate::tools::collection::{DEFAULT_LIMIT, filtered_page};
use crate::tools::prelude::*;

/// Drafts whose authors are asked for at a time.
const CONCURRENT_READS: usize = 8;

/// Shows one workflow: its nodes, how they are connected, and how each trigger can be run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// Show the whole definition, as update_workflow takes it, instead of the summary.
    #[serde(default)]
    full: bool,
    /// Show all that is in these nodes instead of the summary.
    #[serde(default)]
    nodes: Vec<String>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct WorkflowDetails {
    id: String,
    name: String,
    description: Option<String>,
    active: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
    /// The tools that change the definition take it.
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    /// The draft, which is shown here, is not what is live.
    unpublished: Option<UnpublishedDraft>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<TriggerSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeSummary>,
    /// They are `from -> to`, with output and kind where those are not the first and `main`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connections: Vec<String>,
    settings: Option<Map<String, Value>>,
    /// The output of these nodes is pinned in the editor; it is not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<String>,
    definition: Option<Definition>,
    /// These nodes were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    whole_nodes: Vec<Map<String, Value>>,
}

// The parts of a workflow that define it, as n8n wrote them, without pinned data, owner and published copy. (A doc comment
// would become a part of the tool's schema.)
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Definition {
    name: String,
    #[schemars(with = "Vec<Map<String, Value>>")]
    nodes: Value,
    connections: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct NodeSummary {
    name: String,
    r#type: String,
    /// It runs code or commands that are written in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    runs_code: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct TriggerSummary {
    node: String,
    kind: TriggerKind,
    method: Option<String>,
    /// It is below `/webhook/`.
    path: Option<String>,
    /// It is the JSON Schema of the input, as far as known.
    parameters: Option<Map<String, Value>>,
    /// run_workflow can start it.
    runnable: bool,
    /// It says why run_workflow cannot start it, and what would help.
    reason: Option<String>,
}

impl Tool for GetWorkflow {
    const NAME: &'static str = "get_workflow";
    /// A definition is whole: a part of it, written back, would delete the rest.
    const BOUNDS_ITS_RESULT: bool = true;
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = WorkflowDetails;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowDetails, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let shown = WorkflowDetails {
            id: workflow.id.to_string(),
            name: workflow.name.clone(),
            active: workflow.active,
            version: workflow.updated_at.clone(),
            unpublished: n8n.api.unpublished(&workflow).await,
            ..WorkflowDetails::default()
        };
        if !self.nodes.is_empty() && !self.full {
            return Ok(WorkflowDetails {
                whole_nodes: self.whole_nodes(&redacted(n8n, &Draft::of(&workflow)))?,
                ..shown
            });
        }
        let shown = shown.with_triggers(n8n, &workflow)?;
        let settings = workflow.settings.clone();
        if self.full {
            let redactor = n8n.redactor();
            let nodes = workflow.nodes.iter().map(|node| node.redacted(&redactor));
            let definition = Definition {
                name: workflow.name.clone(),
                nodes: json!(nodes.collect::<Vec<_>>()),
                connections: workflow.connections,
                settings: Some(settings),
            };
            return Ok(WorkflowDetails {
                definition: Some(definition),
                ..shown
            });
        }
        Ok(WorkflowDetails {
            nodes: workflow.nodes.iter().map(node_summary).collect(),
            connections: lines(&workflow.connections),
            settings: Some(settings).filter(|settings| !settings.is_empty()),
            ..shown
        })
    }
}

impl GetWorkflow {
    fn whole_nodes(&self, shown: &Draft) -> Result<Vec<Map<String, Value>>, ToolError> {
        let node = |name: &String| match shown.node(name) {
            Some(node) => Ok(node.0.clone()),
            None => {
                let names: Vec<_> = shown.nodes.iter().map(Node::name).collect();
                let names = names.join(", ");
                let message = format!("`nodes` names {name:?}. The workflow has: {names}.");
                Err(ToolError::invalid_argument(message))
            }
        };
        self.nodes.iter().map(node).collect()
    }
}

impl WorkflowDetails {
    /// Adds what the summary and the whole definition share.
    fn with_triggers(self, n8n: &N8n, workflow: &Workflow) -> Result<Self, ToolError> {
        let (access, triggers) = (n8n.access()?, triggers(workflow));
        let triggers = triggers.iter().map(|trigger| summary(trigger, &access));
        let description = workflow.description.as_deref();
        let pinned = workflow.pin_data.iter().flat_map(Map::keys);
        Ok(Self {
            description: description.map(|text| n8n.redactor().text(text)),
            archived: workflow.is_archived,
            tags: workflow.tags.clone(),
            triggers: triggers.collect(),
            pinned: pinned.cloned().collect(),
            ..self
        })
    }
}

fn summary(trigger: &Trigger<'_>, access: &Access) -> TriggerSummary {
    let way = access.way(trigger);
    let webhook = (trigger.kind == TriggerKind::Webhook).then(|| trigger.webhook().ok());
    let webhook = webhook.flatten();
    TriggerSummary {
        node: trigger.node.name().to_owned(),
        kind: trigger.kind,
        method: webhook.as_ref().map(|webhook| {
            let methods: Vec<&str> = webhook.methods.iter().map(Method::as_str).collect();
            methods.join(", ")
        }),
        path: webhook.map(|webhook| webhook.path.join("/")),
        parameters: parameters(trigger),
        runnable: way.is_ok(),
        reason: way.err(),
    }
}

fn parameters(trigger: &Trigger<'_>) -> Option<Map<String, Value>> {
    match parameters_of(trigger) {
        Value::Object(schema) => Some(schema).filter(|schema| schema["properties"] != json!({})),
        _ => None,
    }
}

pub(super) fn node_summary(node: &Node) -> NodeSummary {
    NodeSummary {
        name: node.name().to_owned(),
        r#type: node.kind().to_owned(),
        runs_code: runs_code(node.kind()),
        disabled: node.is_disabled(),
    }
}

/// Lists n8n workflows.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListWorkflows {
    /// Show only workflows with all of these tag names.
    #[serde(default)]
    tags: Vec<String>,
    /// Show only active or only inactive workflows.
    active: Option<bool>,
    /// Show only workflows whose names contain this.
    name: Option<String>,
    /// Show only workflows of the project with this id.
    project_id: Option<Id>,
    /// Show archived workflows instead of the others.
    #[serde(default)]
    archived: bool,
    /// The page size is 100 by default.
    limit: Option<Limit>,
    /// The previous page returns it as `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkflowPage {
    pub(crate) workflows: Vec<WorkflowRow>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkflowRow {
    pub(crate) id: String,
    name: String,
    active: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// The draft is not what is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpublished: Option<UnpublishedDraft>,
}

impl WorkflowRow {
    async fn of(workflow: Workflow, n8n: &N8n) -> Self {
        Self {
            unpublished: n8n.api.unpublished(&workflow).await,
            id: workflow.id.to_string(),
            name: workflow.name,
            active: workflow.active,
            tags: workflow.tags,
        }
    }
}

impl Tool for ListWorkflows {
    const NAME: &'static str = "list_workflows";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = WorkflowPage;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowPage, ToolError> {
        let (policy, query) = (&n8n.api.policy, self.query()?);
        let is_shown =
            |workflow: &Workflow| workflow.is_archived == self.archived && policy.admits(workflow);
        let fetch = async |cursor| {
            let page = n8n.api.workflows(&query, cursor).await?;
            Ok(page.map(|row| Some(row).filter(is_shown)))
        };
        let listed = filtered_page(self.limit() as usize, self.cursor.as_deref(), fetch);
        let mut page = listed.await?;
        // Their tags and projects are unknown.
        page.rest.left_out.retain(|_| policy.is_open());
        let rows = stream::iter(page.data).map(|workflow| WorkflowRow::of(workflow, n8n));
        Ok(WorkflowPage {
            workflows: rows.buffered(CONCURRENT_READS).collect().await,
            rest: page.rest,
        })
    }
}

impl ListWorkflows {
    /// The call for as many workflows as n8n lists at once.
    pub(crate) fn first_page() -> Self {
        Self {
            limit: Limit::new(250),
            ..Self::default()
        }
    }

    fn limit(&self) -> u32 {
        self.limit.map_or(DEFAULT_LIMIT, Bounded::get)
    }

    /// The query for n8n, which knows no archived workflows.
    fn query(&self) -> Result<Vec<(&'static str, String)>, ToolError> {
        // n8n expects the names in one text, separated by commas, and ignores blank ones.
        let unusable = |tag: &&String| tag.contains(',') || tag.trim().is_empty();
        if let Some(tag) = self.tags.iter().find(unusable) {
            return Err(ToolError::invalid_argument(format!(
                "`tags` contains {tag:?}: n8n cannot search for a tag that is blank or has a comma."
            )));
        }
        let parts = [
            ("tags", Some(self.tags.join(","))),
            ("active", self.active.map(|active| active.to_string())),
            ("name", self.name.clone()),
            ("projectId", self.project_id.as_ref().map(Id::to_string)),
            ("limit", Some(self.limit().to_string())),
        ];
        let given = parts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Ok(given.filter(|(_, value)| !value.is_empty()).collect())
    }
}
