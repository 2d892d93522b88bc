//! Workflows, as the API returns them.

use std::collections::HashMap;

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use upstream::http::{HttpFailure, Method, StatusCode};

use super::{Api, N8nFailure as _, Page};
use crate::id::Id;

/// A workflow in a list. n8n sends all of its nodes; they are skipped while reading.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkflowRow {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) active: bool,
    #[serde(default)]
    pub(crate) is_archived: bool,
    #[serde(default)]
    pub(crate) tags: Vec<Tag>,
    #[serde(default)]
    pub(crate) shared: Projects,
}

/// A tag.
#[derive(Deserialize)]
pub(crate) struct Tag {
    pub(crate) name: String,
}

/// The projects that a workflow is in.
#[derive(Default, Deserialize)]
pub(crate) struct Projects(Vec<Share>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Share {
    project_id: String,
}

/// A workflow.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workflow {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) active: bool,
    #[serde(default)]
    pub(crate) is_archived: bool,
    #[serde(default)]
    pub(crate) tags: Vec<Tag>,
    #[serde(default)]
    pub(crate) nodes: Vec<Node>,
    #[serde(default)]
    pub(crate) connections: Map<String, Value>,
    #[serde(default)]
    pub(crate) settings: Map<String, Value>,
    /// Output that was pinned to nodes in the editor; by name of the node.
    #[serde(default)]
    pub(crate) pin_data: Option<Map<String, Value>>,
    /// What runs in production (n8n 2); `nodes` may hold later changes.
    #[serde(default)]
    pub(crate) active_version: Option<Version>,
    #[serde(default)]
    pub(crate) shared: Projects,
    /// Changes with the definition and the name, not with activation or tags.
    #[serde(default)]
    pub(crate) updated_at: String,
}

/// A published version of a workflow.
#[derive(Default, Deserialize)]
pub(crate) struct Version {
    #[serde(default)]
    pub(crate) nodes: Vec<Node>,
}

/// A node.
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
    #[serde(default)]
    pub(crate) webhook_id: Option<String>,
    #[serde(default)]
    pub(crate) parameters: Map<String, Value>,
    /// By type of the credential.
    #[serde(default)]
    pub(crate) credentials: HashMap<String, CredentialRef>,
}

/// A credential, as a node names it.
#[derive(Deserialize)]
pub(crate) struct CredentialRef {
    #[serde(default)]
    pub(crate) id: Option<String>,
    #[serde(default)]
    pub(crate) name: Option<String>,
}

// The parts of a workflow that define it, byte for byte as n8n wrote them. Pinned data, who owns it
// and its published copy are not among them. (A doc comment would be a part of a tool's schema.)
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

/// Which workflows a list holds.
#[derive(Default, Serialize)]
pub(crate) struct Filter {
    /// Names of tags, with commas, all of which the workflow has.
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

impl Projects {
    pub(crate) fn ids(&self) -> Vec<&str> {
        let ids = self.0.iter().map(|share| share.project_id.as_str());
        ids.collect()
    }
}

impl Workflow {
    /// The nodes that production triggers start.
    pub(crate) fn live_nodes(&self) -> &[Node] {
        match &self.active_version {
            Some(version) if self.active => &version.nodes,
            _ => &self.nodes,
        }
    }

    /// True if its settings tell n8n not to keep the executions that succeed.
    pub(crate) fn forgets_runs(&self) -> bool {
        self.settings
            .get("saveDataSuccessExecution")
            .and_then(Value::as_str)
            == Some("none")
    }

    /// True if n8n's built-in MCP server may act on it.
    pub(crate) fn available_in_mcp(&self) -> bool {
        self.settings.get("availableInMCP") == Some(&Value::Bool(true))
    }
}

impl Api {
    /// One page of workflows.
    pub(crate) async fn workflows(&self, filter: &Filter) -> Result<Page<WorkflowRow>, ToolError> {
        let request = self.request(Method::GET, &["workflows"]);
        let request = request
            .query(filter)
            .query(&[("excludePinnedData", "true")]);
        let page = request.json().await;
        page.map_err(|failure: HttpFailure| {
            if filter.cursor.is_some() && failure.status() == Some(StatusCode::BAD_REQUEST) {
                ToolError::invalid_argument(
                    "`cursor` is not one that n8n handed out. Pass the `next_cursor` of the page \
                     before, or none for the first page.",
                )
            } else {
                failure.into()
            }
        })
    }

    /// A workflow.
    pub(crate) async fn workflow(&self, id: &Id) -> Result<Workflow, ToolError> {
        let workflow = self.get(&["workflows", id.as_str()], &[]).await;
        let workflow = workflow.map_err(|failure| explain(failure, id))?;
        self.admit(&workflow, id)?;
        Ok(workflow)
    }

    /// A workflow, typed and in another form: its definition, or all that n8n says of it.
    pub(crate) async fn workflow_as<T: DeserializeOwned>(
        &self,
        id: &Id,
    ) -> Result<(Workflow, T), ToolError> {
        let raw: Result<Box<RawValue>, HttpFailure> =
            self.get(&["workflows", id.as_str()], &[]).await;
        let raw = raw.map_err(|failure| explain(failure, id))?;
        let read = || -> serde_json::Result<(Workflow, T)> {
            let workflow = serde_json::from_str(raw.get())?;
            Ok((workflow, serde_json::from_str(raw.get())?))
        };
        let (workflow, other) = read().map_err(|error| {
            ToolError::upstream("n8n described the workflow in a way that is not understood.")
                .caused_by(error)
        })?;
        self.admit(&workflow, id)?;
        Ok((workflow, other))
    }

    /// The active workflows with this tag, whole; not more than `limit`.
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
