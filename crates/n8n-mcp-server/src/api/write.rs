//! Writes workflows. Retries only what n8n has rejected as a whole, and deletions, which are
//! idempotent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::tool::ToolError;
use n8n_workflow::draft::{Draft, DraftError, FieldSet, WritableDraft};
use n8n_workflow::publish_check::hide_names;
use n8n_workflow::{Id, UnpublishedDraft, Workflow};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use upstream::http::{HttpFailure, Method, StatusCode};

use super::locks::WorkflowLock;
use super::{Api, N8nFailure as _, change_error};
use crate::policy::NEW_IS_CLOSED;

/// Leaves the last version of an active workflow live.
const DRAFT_ONLY: [(&str, &str); 1] = [("publishIfActive", "false")];
/// A part that n8n returns with each workflow, and ignores when it is written.
const IGNORED_SETTING: &str = "settings: binaryMode";
/// Longer than for other requests: n8n activates an active workflow again when it changes.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest time that n8n needs to deactivate a workflow before it deletes it: if all of its
/// workers are busy, the deactivation waits for n8n's next poll, every 15 s.
const DEACTIVATION_TIMEOUT: Duration = Duration::from_secs(20);
/// The time until n8n runs a version that it has published.
const PUBLISHING_TIME: Duration = Duration::from_millis(1_500);
const DELETE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A tag with its id.
#[derive(Clone, Deserialize)]
pub(super) struct TagRow {
    id: String,
    pub(super) name: String,
}

/// A definition that was written.
pub(crate) struct WrittenWorkflow {
    pub(crate) workflow: Workflow,
    /// Names of the parts that n8n did not accept.
    pub(crate) left_out: Vec<String>,
    pub(crate) publication: Publication,
}

/// The effect of a written definition on what is live.
pub(crate) enum Publication {
    /// The workflow is not active.
    Inactive,
    /// It is live.
    Live,
    /// It is a draft, as the caller wanted.
    Draft,
    /// It is a draft, since the draft before held changes of others that are not live: publishing it would
    /// have published those, too.
    SecondDraft(UnpublishedDraft),
    /// It is a draft, since n8n does not publish it, for this reason.
    Refused(String),
}

/// The changes that this server has made last, by workflow.
#[derive(Default)]
pub(super) struct OwnChanges(Mutex<HashMap<Id, OwnChange>>);

#[derive(Default)]
struct OwnChange {
    /// The draft, if it differs from what is live by changes of this server only.
    draft: Option<String>,
    published: Option<Instant>,
}

impl OwnChanges {
    fn with<T>(&self, id: &Id, use_it: impl FnOnce(&mut OwnChange) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(all.entry(id.clone()).or_default())
    }
}

impl Api {
    /// Waits until n8n runs what was published last: it answers before that.
    pub(crate) async fn settle(&self, id: &Id) {
        let published = self.own_changes.with(id, |one| one.published);
        if let Some(published) = published {
            sleep_until(published + PUBLISHING_TIME).await;
        }
    }

    /// Remembers that n8n was made to publish another version of an active workflow.
    pub(crate) fn note_published(&self, id: &Id) {
        let now = Instant::now();
        self.own_changes.with(id, |one| one.published = Some(now));
    }

    /// Creates a workflow.
    pub(crate) async fn create_workflow(
        &self,
        draft: &Draft,
    ) -> Result<WrittenWorkflow, ToolError> {
        self.policy.check_create()?;
        let draft = draft.writable().map_err(unwritable)?;
        let created = self.write(Method::POST, &["workflows"], &[], draft).await;
        let created = created.map_err(|failure| self.explain(failure))?;
        let id = Id::try_from(created.0.id.clone()).map_err(|reason| {
            ToolError::upstream("n8n returned an invalid id for the workflow.").caused_by(reason)
        })?;
        if !self.policy.is_open() && self.workflow(&id).await.is_err() {
            self.delete_workflow(&id).await?;
            return Err(ToolError::forbidden(NEW_IS_CLOSED));
        }
        if let Err(error) = self.mark_for_review(&id).await {
            // Without its tag it could be started without a review.
            self.delete_workflow(&id).await?;
            return Err(error);
        }
        let (workflow, left_out) = created;
        Ok(WrittenWorkflow {
            workflow,
            left_out,
            publication: Publication::Inactive,
        })
    }

    /// Replaces a workflow that is still as it was `read`. If it is active and its draft is what is live, or
    /// differs from it by changes of this server only, `publish` makes the change live.
    ///
    /// # Errors
    /// Also if it was changed since. Nothing was written then.
    pub(crate) async fn replace_workflow(
        self: &Arc<Self>,
        lock: WorkflowLock,
        read: &Workflow,
        draft: &Draft,
        publish: bool,
    ) -> Result<WrittenWorkflow, ToolError> {
        let (api, draft) = (Arc::clone(self), draft.clone());
        let version = (read.updated_at.clone(), read.version_id.clone());
        // A caller that goes away must not leave a change half done, nor let the next one in before n8n
        // has ended it.
        let change = async move {
            let written = api.replace_locked(&lock.id, version, &draft, publish).await;
            drop(lock);
            written
        };
        let written = tokio::spawn(change).await;
        written.unwrap_or_else(|error| {
            let message = "The change was stopped before its end. Read the workflow again.";
            Err(ToolError::upstream(message).caused_by(error))
        })
    }

    async fn replace_locked(
        &self,
        id: &Id,
        version: (String, Option<String>),
        draft: &Draft,
        publish: bool,
    ) -> Result<WrittenWorkflow, ToolError> {
        let draft = draft.writable().map_err(unwritable)?;
        // Before the change, so that nothing starts it in between.
        self.mark_for_review(id).await?;
        let before = self.workflow(id).await?;
        if (&before.updated_at, &before.version_id) != (&version.0, &version.1) {
            return Err(changed_meanwhile(id));
        }
        self.policy.check_write(&before)?;
        // n8n is asked to publish exactly the version that was written.
        let path = ["workflows", id.as_str()];
        let written = self.write(Method::PUT, &path, &DRAFT_ONLY, draft).await;
        let (workflow, left_out) = written.map_err(|failure| self.explain(failure))?;
        let mut written = WrittenWorkflow {
            publication: if workflow.active {
                Publication::Live
            } else {
                Publication::Inactive
            },
            workflow,
            left_out,
        };
        if let Some(unpublished) = written.workflow.unpublished_draft() {
            let old = before.unpublished_draft().map(|old| old.draft_version);
            let new = unpublished.draft_version.clone();
            let is_ours = self.own_changes.with(id, |one| {
                let is_ours = old.is_none() || old == one.draft;
                one.draft = is_ours.then_some(new);
                is_ours
            });
            written.publication = if !publish {
                Publication::Draft
            } else if is_ours {
                self.publish(&mut written.workflow, id, unpublished).await
            } else {
                Publication::SecondDraft(unpublished)
            };
        }
        Ok(written)
    }

    /// Publishes the draft that was written.
    async fn publish(
        &self,
        workflow: &mut Workflow,
        id: &Id,
        version: UnpublishedDraft,
    ) -> Publication {
        let path = ["workflows", id.as_str(), "activate"];
        let body = json!({"versionId": version.draft_version});
        let request = self.request(Method::POST, &path).body(&body);
        let failure = match request.timeout(CHANGE_TIMEOUT).json::<IgnoredAny>().await {
            Ok(_) => {
                self.note_published(id);
                return Publication::Live;
            }
            Err(failure) => failure,
        };
        // n8n deactivates a workflow whose triggers it cannot start.
        if let Ok(now) = self.workflow(id).await {
            workflow.active = now.active;
        }
        Publication::Refused(self.explain(failure).message().to_owned())
    }

    /// Sends the draft, with fewer fields if this n8n does not know all of them.
    pub(super) async fn write(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        draft: WritableDraft<'_>,
    ) -> Result<(Workflow, Vec<String>), HttpFailure> {
        self.write_with(method, path, query, draft, |_| {}).await
    }

    /// The same, with more in the body.
    async fn write_with(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        draft: WritableDraft<'_>,
        extend: impl Fn(&mut Value),
    ) -> Result<(Workflow, Vec<String>), HttpFailure> {
        let mut fields = FieldSet::Newest;
        loop {
            let (mut body, left_out) = draft.body(fields);
            extend(&mut body);
            let request = self.request(method.clone(), path).query(query).body(&body);
            match request.timeout(CHANGE_TIMEOUT).json().await {
                Ok(workflow) => return Ok((workflow, left_out)),
                // n8n has refused it as a whole.
                Err(failure) if fields == FieldSet::Newest && is_unknown_field(&failure) => {
                    fields = FieldSet::Older;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Moves a workflow, whose definition is `draft` at this moment, to a folder of its project, or to its `root`.
    pub(crate) async fn move_to_folder(
        &self,
        WorkflowLock { id, .. }: &WorkflowLock,
        draft: &Draft,
        folder: &Id,
    ) -> Result<(), ToolError> {
        let folder = Some(folder.as_str()).filter(|folder| *folder != "root");
        let draft = draft.writable().map_err(unwritable)?;
        let (_, left_out) = draft.body(FieldSet::Newest);
        if left_out.iter().any(|part| part != IGNORED_SETTING) {
            self.mark_for_review(id).await?;
        }
        let path = ["workflows", id.as_str()];
        let extend = |body: &mut Value| body["parentFolderId"] = json!(folder);
        let written = self.write_with(Method::PUT, &path, &DRAFT_ONLY, draft, extend);
        match written.await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_missing() => Err(ToolError::not_found(
                "The workflow's project has no such folder. read_n8n_api shows those that it has; n8n \
                 has folders only with a licence.",
            )),
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Applies `activate`, `deactivate`, `archive` or `unarchive`.
    pub(crate) async fn act(
        &self,
        lock: &WorkflowLock,
        action: &str,
    ) -> Result<Workflow, ToolError> {
        self.act_alone(&lock.id, action).await
    }

    /// The same for a workflow that no other call changes.
    pub(super) async fn act_alone(&self, id: &Id, action: &str) -> Result<Workflow, ToolError> {
        let path = ["workflows", id.as_str(), action];
        let request = self.request(Method::POST, &path).body(&json!({}));
        let changed = request.timeout(CHANGE_TIMEOUT).json().await;
        changed.map_err(|failure| self.explain(failure))
    }

    pub(crate) async fn delete_workflow(&self, id: &Id) -> Result<(), ToolError> {
        let retry_until = Instant::now() + DEACTIVATION_TIMEOUT;
        let mut has_failed = false;
        loop {
            let path = ["workflows", id.as_str()];
            let failure = match self.request(Method::DELETE, &path).json().await {
                Ok(IgnoredAny) => return Ok(()),
                Err(failure) => failure,
            };
            // n8n's own work on the workflow makes the deletion fail, sometimes after the fact.
            let fails = failure.status() == Some(StatusCode::INTERNAL_SERVER_ERROR);
            // It is still being deactivated: nothing was deleted.
            let is_busy = failure.is_conflict();
            if has_failed && failure.is_missing() {
                return Ok(());
            }
            if (fails || is_busy) && Instant::now() < retry_until {
                has_failed |= fails;
                sleep(DELETE_RETRY_INTERVAL).await;
                continue;
            }
            return Err(if is_busy {
                ToolError::conflict(
                    "n8n is still deactivating the workflow and has not deleted it. Try again in a \
                     while.",
                )
            } else {
                self.explain(failure)
            });
        }
    }

    /// Replaces the tags of a workflow; creates those that do not exist yet.
    pub(crate) async fn set_tags(&self, id: &Id, names: &[String]) -> Result<(), ToolError> {
        let setting = async {
            let (known, _) = self.all::<TagRow>(&["tags"], &[]).await?;
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
        setting.await.map_err(|failure| self.explain(failure))
    }

    /// n8n's message about an invalid request, without names of workflows that are not allowed.
    pub(super) fn complaint(&self, failure: &HttpFailure) -> Option<String> {
        let is_open = |id: &str| self.policy.admits_id(id) == Some(true);
        Some(hide_names(&failure.complaint()?, is_open))
    }

    fn explain(&self, failure: HttpFailure) -> ToolError {
        if let Some(complaint) = self.complaint(&failure) {
            return ToolError::invalid_argument(format!("n8n refuses this: {complaint}"));
        }
        if failure.is_conflict() {
            return ToolError::conflict(
                "n8n refuses this: another active workflow has a webhook with the same method and \
                 path, or the workflow is being changed right now.",
            );
        }
        change_error(failure, ToolError::from)
    }
}

pub(super) fn unwritable(error: DraftError) -> ToolError {
    ToolError::invalid_argument(error.to_string())
}

/// The error for a workflow that has changed since it was read.
pub(crate) fn changed_meanwhile(id: &Id) -> ToolError {
    ToolError::conflict(format!(
        "Workflow {id} was changed since it was read; nothing was written. Read it again with get_workflow \
         and repeat the change."
    ))
}

/// True if n8n rejected a field that it does not know.
fn is_unknown_field(failure: &HttpFailure) -> bool {
    failure.complaint().is_some_and(|complaint| {
        complaint.contains("additional properties") || complaint.contains("Unrecognized key")
    })
}
