//! Reads workflows.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use n8n_workflow::{Id, UnpublishedDraft, Workflow, WorkflowRow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use upstream::http::{HttpFailure, Method, StatusCode};
use upstream::redact::redacted;
use upstream::text::truncate;

use super::{Api, N8nFailure as _, Page};

/// Characters of the reason for which an answer cannot be read.
const MAX_CAUSE: usize = 200;
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
        let (data, unreadable) = readable("Workflow", &page.data);
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
            let cause = cause(&error);
            let message = format!("n8n's description of workflow {id} cannot be read: {cause}.");
            ToolError::upstream(message).caused_by(error)
        };
        let workflow = serde_json::from_str(raw.get()).map_err(unreadable)?;
        let other = serde_json::from_str(raw.get()).map_err(unreadable)?;
        self.admit(&workflow, id)?;
        Ok((workflow, other))
    }

    /// The versions of a workflow whose draft is not what is live, and who has written the draft, if n8n says so.
    pub(crate) async fn unpublished(&self, workflow: &Workflow) -> Option<UnpublishedDraft> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            authors: Option<String>,
            created_at: Option<String>,
        }
        let mut found = workflow.unpublished_draft()?;
        let path = ["workflows", &workflow.id, "versions", &found.draft_version];
        if let Ok(version) = self.get::<Version>(&path, &[]).await {
            (found.changed_by, found.changed_at) = (version.authors, version.created_at);
        }
        Some(found)
    }

    /// The active workflows with this tag, with their nodes.
    pub(crate) async fn tagged(&self, tag: &str) -> Result<Vec<Workflow>, ToolError> {
        self.all_workflows(&[("tags", tag), ("active", "true")])
            .await
    }

    /// The workflows of a query, with their nodes, as far as they can be read.
    pub(crate) async fn all_workflows(
        &self,
        query: &[(&str, &str)],
    ) -> Result<Vec<Workflow>, ToolError> {
        let query = [query, &[("excludePinnedData", "true")]].concat();
        let (all, _): (Vec<Box<RawValue>>, _) = self.all(&["workflows"], &query).await?;
        let (workflows, unreadable) = readable("Workflow", &all);
        for one in unreadable {
            tracing::warn!("{one}");
        }
        Ok(workflows)
    }
}

/// The rows of a list that can be read, and what to say about the others.
pub(super) fn readable<T: DeserializeOwned>(
    kind: &str,
    rows: &[Box<RawValue>],
) -> (Vec<T>, Vec<String>) {
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match serde_json::from_str(row.get()) {
            Ok(read) => all.push(read),
            Err(error) => {
                let row: Value = serde_json::from_str(row.get()).unwrap_or_default();
                let (id, name) = (&row["id"], &row["name"]);
                unreadable.push(format!(
                    "{kind} {id} ({name}) is left out, since it cannot be read: {}.",
                    cause(&error)
                ));
            }
        }
    }
    (all, unreadable)
}

/// The reason against an answer, which may repeat a part of it.
fn cause(error: &serde_json::Error) -> String {
    truncate(&redacted(&error.to_string()), MAX_CAUSE)
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
