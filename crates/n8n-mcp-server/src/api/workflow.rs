//! Reads workflows.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use n8n_workflow::{Id, Workflow, WorkflowRow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use upstream::http::{HttpFailure, Method, StatusCode};

use super::{Api, N8nFailure as _, Page};

/// The error for a cursor that n8n rejects.
pub(crate) const UNKNOWN_CURSOR: &str = "`cursor` is not a cursor of n8n. Pass the `next_cursor` \
    of the previous page, or leave `cursor` out for the first page.";

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

impl Api {
    /// A page of workflows, and what to say about those that cannot be read.
    pub(crate) async fn workflows(
        &self,
        filter: &WorkflowFilter,
    ) -> Result<(Page<WorkflowRow>, Vec<String>), ToolError> {
        let request = self.request(Method::GET, &["workflows"]);
        let request = request
            .query(filter)
            .query(&[("excludePinnedData", "true")]);
        let page: Result<Page<Box<RawValue>>, _> = request.json().await;
        let page = page.map_err(|failure: HttpFailure| {
            if filter.cursor.is_some() && failure.status() == Some(StatusCode::BAD_REQUEST) {
                ToolError::invalid_argument(UNKNOWN_CURSOR)
            } else {
                ToolError::from(failure)
            }
        })?;
        let (data, unreadable) = readable(&page.data);
        let next_cursor = page.next_cursor;
        Ok((Page { data, next_cursor }, unreadable))
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

    /// The active workflows with this tag, with their nodes.
    pub(crate) async fn tagged(&self, tag: &str) -> Result<Vec<Workflow>, ToolError> {
        let query = [
            ("tags", tag),
            ("active", "true"),
            ("excludePinnedData", "true"),
        ];
        let (all, _): (Vec<Box<RawValue>>, _) = self.all(&["workflows"], &query).await?;
        let (workflows, unreadable) = readable(&all);
        for one in unreadable {
            tracing::warn!("{one}");
        }
        Ok(workflows)
    }
}

/// The rows of a list that can be read, and what to say about the others.
fn readable<T: DeserializeOwned>(rows: &[Box<RawValue>]) -> (Vec<T>, Vec<String>) {
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match serde_json::from_str(row.get()) {
            Ok(read) => all.push(read),
            Err(error) => {
                let row: Value = serde_json::from_str(row.get()).unwrap_or_default();
                let (id, name) = (&row["id"], &row["name"]);
                unreadable.push(format!(
                    "Workflow {id} ({name}) is left out, since it cannot be read: {error}."
                ));
            }
        }
    }
    (all, unreadable)
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
