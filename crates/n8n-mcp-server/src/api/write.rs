//! Changes to workflows. None of them is repeated, except where n8n has refused it as a whole, and
//! deletions, which come to the same.

use std::time::Duration;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use upstream::http::{HttpFailure, Method, StatusCode};

use super::{Api, N8nFailure as _, Workflow};
use crate::id::Id;
use crate::workflow::{Draft, TIERS};

/// The limit of a workflow's change: n8n activates anew what is active.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long n8n may be busy with a deactivation before it deletes: one that finds all of its workers
/// busy waits for n8n's next look, every 15 s.
const SETTLE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(200);
/// How many pages of tags are looked through; 250 each.
const TAG_PAGES: usize = 8;

/// A tag with its id.
#[derive(Clone, Deserialize)]
struct TagRow {
    id: String,
    name: String,
}

impl Api {
    /// Makes a workflow; also the names of what n8n did not take.
    pub(crate) async fn create_workflow(
        &self,
        draft: &Draft,
    ) -> Result<(Workflow, Vec<String>), ToolError> {
        self.put(Method::POST, &["workflows"], draft).await
    }

    /// Replaces a workflow, published at once if it is active; also the names of what n8n did not
    /// take.
    pub(crate) async fn replace_workflow(
        &self,
        id: &Id,
        draft: &Draft,
    ) -> Result<(Workflow, Vec<String>), ToolError> {
        let path = ["workflows", id.as_str()];
        self.put(Method::PUT, &path, draft).await
    }

    /// Ever less of the draft, for as long as n8n knows too little of it.
    async fn put(
        &self,
        method: Method,
        path: &[&str],
        draft: &Draft,
    ) -> Result<(Workflow, Vec<String>), ToolError> {
        let mut tiers = TIERS.into_iter().peekable();
        while let Some(tier) = tiers.next() {
            let (body, left_out) = draft.body(tier);
            let request = self.request(method.clone(), path).body(&body);
            match request.timeout(CHANGE_TIMEOUT).json().await {
                Ok(workflow) => return Ok((workflow, left_out)),
                Err(failure) if knows_less(&failure) && tiers.peek().is_some() => {}
                Err(failure) => return Err(explain(failure)),
            }
        }
        Err(ToolError::upstream("n8n takes no workflow of this form."))
    }

    /// Activates or deactivates a workflow.
    pub(crate) async fn set_active(&self, id: &Id, active: bool) -> Result<Workflow, ToolError> {
        let action = if active { "activate" } else { "deactivate" };
        self.act(id, action).await
    }

    /// Archives a workflow or brings it back.
    pub(crate) async fn set_archived(&self, id: &Id, is: bool) -> Result<Workflow, ToolError> {
        let action = if is { "archive" } else { "unarchive" };
        self.act(id, action).await
    }

    async fn act(&self, id: &Id, action: &str) -> Result<Workflow, ToolError> {
        let path = ["workflows", id.as_str(), action];
        let request = self.request(Method::POST, &path).body(&json!({}));
        request
            .timeout(CHANGE_TIMEOUT)
            .json()
            .await
            .map_err(explain)
    }

    /// Deletes a workflow that is not active.
    pub(crate) async fn delete_workflow(&self, id: &Id) -> Result<(), ToolError> {
        let settled_by = Instant::now() + SETTLE;
        let mut has_failed = false;
        loop {
            let path = ["workflows", id.as_str()];
            match self.request(Method::DELETE, &path).json().await {
                Ok(IgnoredAny) => return Ok(()),
                Err(failure) if has_failed && failure.is_missing() => return Ok(()),
                // What it still does with the workflow trips its own deletion.
                Err(failure)
                    if failure.status() == Some(StatusCode::INTERNAL_SERVER_ERROR)
                        && Instant::now() < settled_by =>
                {
                    has_failed = true;
                    sleep(PAUSE).await;
                }
                // It is still being deactivated: nothing was deleted.
                Err(failure) if failure.is_conflict() && Instant::now() < settled_by => {
                    sleep(PAUSE).await;
                }
                Err(failure) if failure.is_conflict() => {
                    return Err(ToolError::conflict(
                        "n8n is still deactivating the workflow and has not deleted it. Try again in a \
                         while.",
                    ));
                }
                Err(failure) => return Err(explain(failure)),
            }
        }
    }

    /// Gives a workflow these tags and no others; makes those that there are not yet.
    pub(crate) async fn set_tags(&self, id: &Id, names: &[String]) -> Result<(), ToolError> {
        let setting = async {
            let (known, _) = self.all::<TagRow>(&["tags"], TAG_PAGES).await?;
            let mut ids = Vec::new();
            for name in names {
                let found = known.iter().find(|tag| tag.name == *name);
                let tag = match found {
                    Some(tag) => tag.clone(),
                    None => {
                        let body = json!({ "name": name });
                        self.send(Method::POST, &["tags"], &body).await?
                    }
                };
                ids.push(json!({"id": tag.id}));
            }
            let path = ["workflows", id.as_str(), "tags"];
            let body = Value::Array(ids);
            let IgnoredAny = self.send(Method::PUT, &path, &body).await?;
            Ok(())
        };
        setting.await.map_err(explain)
    }
}

fn explain(failure: HttpFailure) -> ToolError {
    if let Some(complaint) = failure.complaint() {
        return ToolError::invalid_argument(format!("n8n refuses this: {complaint}"));
    }
    if failure.is_conflict() {
        return ToolError::conflict(
            "n8n refuses this: another active workflow has a webhook with the same method and \
             path, or the workflow is being changed right now.",
        );
    }
    failure.into()
}

/// True if n8n refused a field that it does not know.
fn knows_less(failure: &HttpFailure) -> bool {
    failure.complaint().is_some_and(|complaint| {
        complaint.contains("additional properties") || complaint.contains("Unrecognized key")
    })
}
