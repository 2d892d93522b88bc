//! Reads workflows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::Instant;
use upstream::http::{HttpFailure, Method, StatusCode};

use super::{Api, N8nFailure as _, Page};
use crate::id::Id;

/// The error for a cursor that n8n rejects.
pub(crate) const UNKNOWN_CURSOR: &str = "`cursor` is not a cursor of n8n. Pass the `next_cursor` \
    of the previous page, or leave `cursor` out for the first page.";

#[derive(Deserialize)]
pub(super) struct Tag {
    pub(super) name: String,
}

// A workflow in a list, as n8n sends it (with all of its nodes, which the parser skips) and as
// list_workflows shows it. (A doc comment would become a part of that tool's schema.)
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkflowRow {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    #[schemars(!default)]
    pub(crate) active: bool,
    #[serde(default, skip_serializing)]
    pub(crate) is_archived: bool,
    #[serde(
        default,
        deserialize_with = "tag_names",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) tags: Vec<String>,
    #[serde(
        default,
        rename = "shared",
        deserialize_with = "project_ids",
        skip_serializing
    )]
    pub(crate) projects: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workflow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) active: bool,
    #[serde(default)]
    pub(crate) is_archived: bool,
    #[serde(default, deserialize_with = "tag_names")]
    pub(crate) tags: Vec<String>,
    #[serde(default)]
    pub(crate) nodes: Vec<Node>,
    #[serde(default)]
    pub(crate) connections: Map<String, Value>,
    #[serde(default)]
    pub(crate) settings: Map<String, Value>,
    /// Output that was pinned to nodes in the editor, by the name of the node.
    pub(crate) pin_data: Option<Map<String, Value>>,
    /// The version in production (n8n 2); `nodes` may hold later changes.
    active_version: Option<PublishedVersion>,
    #[serde(default, rename = "shared", deserialize_with = "project_ids")]
    pub(crate) projects: Vec<String>,
    /// Changes with the definition and the name, not with activation or tags.
    #[serde(default)]
    pub(crate) updated_at: String,
}

#[derive(Deserialize)]
struct PublishedVersion {
    #[serde(default)]
    nodes: Vec<Node>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) type_version: f64,
    #[serde(default)]
    pub(crate) disabled: bool,
    pub(crate) webhook_id: Option<String>,
    #[serde(default)]
    pub(crate) parameters: Map<String, Value>,
    /// By the type of the credential.
    #[serde(default)]
    pub(crate) credentials: HashMap<String, CredentialRef>,
}

/// The credential of a node.
#[derive(Deserialize)]
pub(crate) struct CredentialRef {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
}

// The parts of a workflow that define it, byte for byte as n8n wrote them, without pinned data,
// owner and published copy. (A doc comment would become a part of a tool's schema.)
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Definition {
    pub(crate) name: String,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) nodes: Box<RawValue>,
    #[schemars(with = "Map<String, Value>")]
    pub(crate) connections: Box<RawValue>,
    #[schemars(with = "Option<Map<String, Value>>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<Box<RawValue>>,
}

/// The query of a list of workflows.
#[derive(Clone, Default, Serialize)]
pub(crate) struct WorkflowFilter {
    /// Names of tags, separated by commas; the workflow has all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) tags: String,
    pub(crate) active: Option<bool>,
    /// A part of the name.
    pub(crate) name: Option<String>,
    #[serde(rename = "projectId")]
    pub(crate) project: Option<Id>,
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

fn tag_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let tags = Vec::<Tag>::deserialize(deserializer)?;
    Ok(tags.into_iter().map(|tag| tag.name).collect())
}

fn project_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Share {
        project_id: String,
    }
    let shares = Vec::<Share>::deserialize(deserializer)?;
    Ok(shares.into_iter().map(|share| share.project_id).collect())
}

impl Workflow {
    /// The nodes that run in production.
    pub(crate) fn live_nodes(&self) -> &[Node] {
        match &self.active_version {
            Some(version) if self.active => &version.nodes,
            _ => &self.nodes,
        }
    }

    /// True if n8n publishes versions of it, which n8n 2 does.
    pub(crate) fn has_versions(&self) -> bool {
        self.active_version.is_some()
    }

    /// True if n8n's built-in MCP server may act on it.
    pub(crate) fn available_in_mcp(&self) -> bool {
        self.settings.get("availableInMCP") == Some(&Value::Bool(true))
    }
}

impl Api {
    pub(crate) async fn workflows(
        &self,
        filter: &WorkflowFilter,
    ) -> Result<Page<WorkflowRow>, ToolError> {
        let request = self.request(Method::GET, &["workflows"]);
        let request = request
            .query(filter)
            .query(&[("excludePinnedData", "true")]);
        let page = request.json().await;
        page.map_err(|failure: HttpFailure| {
            if filter.cursor.is_some() && failure.status() == Some(StatusCode::BAD_REQUEST) {
                ToolError::invalid_argument(UNKNOWN_CURSOR)
            } else {
                failure.into()
            }
        })
    }

    /// A workflow, if the policy allows it.
    pub(crate) async fn workflow(&self, id: &Id) -> Result<Workflow, ToolError> {
        let workflow = self.get(&["workflows", id.as_str()], &[]).await;
        let workflow = workflow.map_err(|failure| explain(failure, id))?;
        self.admit(&workflow, id)?;
        Ok(workflow)
    }

    /// The same, shared with all callers that ask for it at the same time.
    pub(crate) async fn shared_workflow(&self, id: &Id) -> Result<Arc<Workflow>, ToolError> {
        let request = async { Ok(Arc::new(self.workflow(id).await?)) };
        let (workflows, now) = (&self.shared_workflows, Instant::now());
        let workflow = workflows.get(id.clone(), now, Duration::ZERO, request);
        Ok(workflow.await?)
    }

    /// A workflow, also in a second form: its definition, or all of n8n's JSON.
    pub(crate) async fn workflow_as<T: DeserializeOwned>(
        &self,
        id: &Id,
    ) -> Result<(Workflow, T), ToolError> {
        let raw: Result<Box<RawValue>, HttpFailure> =
            self.get(&["workflows", id.as_str()], &[]).await;
        let raw = raw.map_err(|failure| explain(failure, id))?;
        let unreadable = |error| {
            ToolError::upstream("n8n's description of the workflow cannot be read.")
                .caused_by(error)
        };
        let workflow = serde_json::from_str(raw.get()).map_err(unreadable)?;
        let other = serde_json::from_str(raw.get()).map_err(unreadable)?;
        self.admit(&workflow, id)?;
        Ok((workflow, other))
    }

    /// The active workflows with this tag, with their nodes; at most `limit`.
    pub(crate) async fn tagged(&self, tag: &str, limit: usize) -> Result<Vec<Workflow>, ToolError> {
        let limit = limit.to_string();
        let query = [
            ("tags", tag),
            ("active", "true"),
            ("limit", &limit),
            ("excludePinnedData", "true"),
        ];
        let page: Page<Workflow> = self.get(&["workflows"], &query).await?;
        Ok(page.data)
    }
}

fn explain(failure: HttpFailure, id: &Id) -> ToolError {
    if failure.is_missing() {
        ToolError::not_found(format!(
            "n8n has no workflow {id}. list_workflows shows those that it has."
        ))
    } else {
        failure.into()
    }
}
