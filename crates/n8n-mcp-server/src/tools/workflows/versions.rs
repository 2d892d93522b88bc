//! The toolset `versions`: the history of a workflow, what changed since a version, and the way back.

use n8n_workflow::Node;
use n8n_workflow::diff::{WorkflowDiff, diff};
use n8n_workflow::draft::Draft;
use upstream::redact::Redactor;

use super::authoring::{Written, check_change, load_for_change, redacted};
use super::get::{NodeSummary, line, lines, node_summary};
use super::impossible;
use crate::tools::prelude::*;

const WORKFLOWS: Collection = Collection {
    path: "workflows",
    missing: "n8n has no such version of the workflow, or not any more. list_workflow_versions shows \
              those that it has.",
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
    /// From list_workflows.
    workflow_id: Id,
    /// Page size; default 100.
    limit: Option<Limit>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Versions {
    versions: Vec<VersionRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
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
    /// Being edited.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    current: bool,
    /// Started by triggers.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    live: bool,
}

/// The ids of the versions in use.
struct UsedVersions {
    current: Option<String>,
    live: Option<String>,
}

impl UsedVersions {
    fn read(workflow: &Map<String, Value>) -> Self {
        let text = |key| Some(workflow.get(key)?.as_str()?.to_owned());
        Self {
            current: text("versionId"),
            live: text("activeVersionId"),
        }
    }

    fn mark(&self, row: VersionRow, redactor: &Redactor) -> VersionRow {
        let hide = |text: Option<String>| text.map(|text| redactor.text(&text));
        let is = |used: &Option<String>| used.as_ref() == Some(&row.version_id);
        VersionRow {
            current: is(&self.current),
            live: is(&self.live),
            name: hide(row.name),
            description: hide(row.description),
            ..row
        }
    }
}

impl Tool for ListWorkflowVersions {
    const NAME: &'static str = "list_workflow_versions";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Versions;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Versions, ToolError> {
        let (_, whole) = n8n.api.workflow_as(&self.workflow_id).await?;
        let used = UsedVersions::read(&whole);
        let below = [self.workflow_id.as_str(), "history"];
        let page = WORKFLOWS.page_of(n8n, &below, &[], self.limit, self.cursor);
        let (rows, next_cursor): (Vec<VersionRow>, _) = page.await?;
        let redactor = n8n.redactor();
        let rows = rows.into_iter().map(|row| used.mark(row, &redactor));
        Ok(Versions {
            versions: rows.collect(),
            next_cursor,
        })
    }
}

/// A version of a workflow: its nodes, or what changed since it. Name, settings and tags have no versions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetWorkflowVersion {
    /// From list_workflows.
    workflow_id: Id,
    /// From list_workflow_versions.
    version_id: Id,
    /// `current` or another version: shows the changes from version_id to it.
    changes_to: Option<Id>,
}

#[derive(Serialize, JsonSchema)]
struct VersionDetails {
    #[serde(flatten)]
    version: VersionRow,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeSummary>,
    /// As in get_workflow.
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
        let (_, whole): (_, Map<String, Value>) = n8n.api.workflow_as(id).await?;
        let used = UsedVersions::read(&whole);
        let current = Draft::read_stored(whole).map_err(impossible)?;
        let (row, draft) = version(n8n, id, &self.version_id, &current).await?;
        let mut details = VersionDetails {
            version: used.mark(row, &n8n.redactor()),
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
            let found = diff((&draft, &shown[0]), (&after, &shown[1]), line);
            details.changes = Some(found);
        } else {
            let nodes: Result<Vec<Node>, _> = serde_json::from_value(json!(draft.nodes));
            let nodes = nodes.unwrap_or_default();
            details.nodes = nodes.iter().map(node_summary).collect();
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
        nodes: Value,
        connections: Value,
    }
    let path = ["workflows", workflow.as_str(), "versions", version.as_str()];
    let whole = n8n.api.get(&path, &[]).await;
    let whole: Whole = whole.map_err(|failure| refusal(failure, WORKFLOWS.missing))?;
    let definition = json!({
        "name": current.name, "settings": current.settings, "nodes": whole.nodes,
        "connections": whole.connections,
    });
    let definition = serde_json::from_value(definition).unwrap_or_default();
    let draft = Draft::read_stored(definition).map_err(impossible)?;
    Ok((whole.row, draft))
}

/// Makes an earlier version the draft again. The last draft stays among the versions, and what is live
/// stays live until activate_workflow.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestoreWorkflowVersion {
    /// From list_workflows.
    workflow_id: Id,
    /// From list_workflow_versions.
    version_id: Id,
}

impl Tool for RestoreWorkflowVersion {
    const NAME: &'static str = "restore_workflow_version";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let id = &self.workflow_id;
        let (lock, workflow, before) = load_for_change(n8n, id, None).await?;
        let (_, draft) = version(n8n, id, &self.version_id, &before).await?;
        let change = Some((&workflow, &before));
        let warnings = check_change(n8n, change, &draft, true).await?;
        let api = &n8n.api;
        let written = api.replace_workflow(lock, &workflow, &draft, false).await?;
        Ok(Written::new(written, warnings))
    }
}
