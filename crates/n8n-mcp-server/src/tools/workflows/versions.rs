//! The toolset `versions`: the history of a workflow, what changed since a version, and the way back.

use n8n_workflow::connections::lines;
use n8n_workflow::diff::{WorkflowDiff, diff};
use n8n_workflow::draft::Draft;
use n8n_workflow::{Node, Workflow};
use upstream::redact::Redactor;

use super::authoring::{check_change, load_for_change, redacted, replace};
use super::get::{NodeSummary, node_summary};
use super::load;
use crate::api::{Rest, Written};
use crate::tools::prelude::*;

const WORKFLOWS: Collection = Collection {
    kind: "Version",
    path: "workflows",
    missing: "n8n has no such version of the workflow, or not any more. list_workflow_versions shows \
              the versions that n8n has.",
};
/// The word for the version that is being edited.
const CURRENT: &str = "current";

pub(crate) fn versions() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListWorkflowVersions>()
        .with::<GetWorkflowVersion>()
        .with::<RestoreWorkflowVersion>()
}

/// Lists the versions that n8n keeps of a workflow, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListWorkflowVersions {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// The page size is 100 by default.
    limit: Option<Limit>,
    /// The previous page returns it as `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Versions {
    versions: Vec<VersionRow>,
    #[serde(flatten)]
    rest: Rest,
}

#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
struct VersionRow {
    version_id: String,
    created_at: String,
    #[serde(default)]
    authors: String,
    name: Option<String>,
    description: Option<String>,
    /// It is being edited.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    current: bool,
    /// Triggers start it.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    live: bool,
}

impl VersionRow {
    /// The row with its marks: whether the workflow uses the version now.
    fn marked(self, of: &Workflow, redactor: &Redactor) -> Self {
        let hide = |text: Option<String>| text.map(|text| redactor.text(&text));
        let is = |used: &Option<String>| used.as_ref() == Some(&self.version_id);
        Self {
            current: is(&of.version_id),
            live: is(&of.active_version_id),
            name: hide(self.name),
            description: hide(self.description),
            ..self
        }
    }
}

impl Tool for ListWorkflowVersions {
    const NAME: &'static str = "list_workflow_versions";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Versions;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Versions, ToolError> {
        let workflow = n8n.api.workflow(&self.workflow_id).await?;
        let below = [self.workflow_id.as_str(), "history"];
        let page = WORKFLOWS.page(n8n, &below, &[], self.limit, self.cursor);
        let redactor = n8n.redactor();
        let page = page
            .await?
            .map(|row: VersionRow| row.marked(&workflow, &redactor));
        Ok(Versions {
            versions: page.data,
            rest: page.rest,
        })
    }
}

/// Shows a version of a workflow: its nodes, or what changed since it. Name, settings and tags have no versions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetWorkflowVersion {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// list_workflow_versions shows the id.
    version_id: Id,
    /// Show the changes from version_id to this version, or to `current`.
    changes_to: Option<Id>,
}

#[derive(Serialize, JsonSchema)]
struct VersionDetails {
    #[serde(flatten)]
    version: VersionRow,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeSummary>,
    /// They have the same form as in get_workflow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connections: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<WorkflowDiff>,
}

impl Tool for GetWorkflowVersion {
    const NAME: &'static str = "get_workflow_version";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = VersionDetails;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<VersionDetails, ToolError> {
        let id = &self.workflow_id;
        let (workflow, current) = load(n8n, id).await?;
        let (row, draft) = version(n8n, id, &self.version_id, &current).await?;
        let mut details = VersionDetails {
            version: row.marked(&workflow, &n8n.redactor()),
            nodes: Vec::new(),
            connections: Vec::new(),
            changes: None,
        };
        if let Some(other) = &self.changes_to {
            let after = match other.as_str() {
                CURRENT => current,
                _ => version(n8n, id, other, &current).await?.1,
            };
            let shown = [&draft, &after].map(|draft| redacted(n8n, draft));
            let found = diff((&draft, &shown[0]), (&after, &shown[1]));
            details.changes = Some(found);
        } else {
            details.nodes = draft.nodes.iter().map(node_summary).collect();
            details.connections = lines(&draft.connections);
        }
        Ok(details)
    }
}

/// A version, and the workflow as it would be with it.
async fn version(
    n8n: &N8n,
    workflow: &Id,
    version: &Id,
    current: &Draft,
) -> Result<(VersionRow, Draft), ToolError> {
    #[derive(Deserialize)]
    struct Whole {
        #[serde(flatten)]
        row: VersionRow,
        nodes: Vec<Node>,
        connections: Map<String, Value>,
        #[serde(default, rename = "nodeGroups")]
        groups: Option<Vec<Value>>,
    }
    let path = ["workflows", workflow.as_str(), "versions", version.as_str()];
    let whole = n8n.api.get(&path, &[]).await;
    let whole: Whole = whole.map_err(|failure| refusal(failure, WORKFLOWS.missing))?;
    let draft = current.with_version(whole.nodes, whole.connections, whole.groups);
    Ok((whole.row, draft))
}

/// Makes an earlier version the draft again. The last draft stays among the versions, and what is live
/// stays live until activate_workflow.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestoreWorkflowVersion {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// list_workflow_versions shows the id.
    version_id: Id,
}

impl Tool for RestoreWorkflowVersion {
    const NAME: &'static str = "restore_workflow_version";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let id = &self.workflow_id;
        let loaded = load_for_change(n8n, id, None).await?;
        let (_, workflow, before) = &loaded;
        let (_, draft) = version(n8n, id, &self.version_id, before).await?;
        let checked = check_change(n8n, Some((workflow, before)), &draft, true).await?;
        replace(n8n, loaded, &draft, checked, false).await
    }
}
