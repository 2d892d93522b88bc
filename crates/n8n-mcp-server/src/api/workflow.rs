//! Reads and writes workflows, as far as the operator's policy allows. A change is read, checked and written, and
//! another one in between would be lost: so each workflow is written by one call at a time. Retries only deletions,
//! which are idempotent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use futures_util::stream::{StreamExt as _, TryStreamExt as _};
use mcp_core::tool::ToolError;
use mcp_core::tool::ToolErrorKind::{Forbidden, NotFound};
use n8n_workflow::check::Finding;
use n8n_workflow::draft::{Draft, called_workflows};
use n8n_workflow::publish_check::hide_names;
use n8n_workflow::{Execution, Id, Node, UnpublishedDraft, Workflow};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, sleep_until};
use upstream::http::{HttpFailure, Method, StatusCode};

use super::failure::{complaint, is_conflict, is_missing};
use super::shared::{shared, slot};
use super::{Api, Page, RawPage, after};
use crate::policy::{NEW_IS_CLOSED, REVIEW_TAG, not_open};

pub(crate) const UNKNOWN_CURSOR: &str = "`cursor` is not a cursor of n8n. Pass the `next_cursor` \
    of the previous page, or leave `cursor` out for the first page.";

impl Api {
    /// The page of the workflows of a query that begins at this cursor, else the first.
    pub(crate) async fn workflows(
        &self,
        query: &[(&str, String)],
        cursor: Option<String>,
    ) -> Result<Page<Workflow>, ToolError> {
        let from = cursor.as_deref().map(|cursor| ("cursor", cursor));
        let request = self.request(Method::GET, &["workflows"]);
        let request = request
            .query(query)
            .query(from.as_slice())
            .query(&[("excludePinnedData", "true")]);
        let page: Result<RawPage, _> = request.json().await;
        let page = page.map_err(|failure: HttpFailure| {
            if cursor.is_some() && failure.status() == Some(StatusCode::BAD_REQUEST) {
                ToolError::invalid_argument(UNKNOWN_CURSOR)
            } else {
                ToolError::from(failure)
            }
        })?;
        Ok(page.read("Workflow"))
    }

    pub(crate) async fn workflow(&self, id: &Id) -> Result<Workflow, ToolError> {
        let workflow = self.get(&["workflows", id.as_str()], &[]).await;
        let workflow = workflow.map_err(|failure| match is_missing(&failure) {
            true => ToolError::not_found(format!(
                "n8n has no workflow {id}. list_workflows shows the workflows of n8n."
            )),
            false => failure.into(),
        })?;
        self.admit(&workflow, id)?;
        Ok(workflow)
    }

    /// The workflow of an execution as it is now, if n8n says which it is.
    pub(crate) async fn workflow_of(
        &self,
        execution: &Execution,
    ) -> Result<Option<Workflow>, ToolError> {
        match &execution.workflow_id {
            Some(id) => self.workflow(id).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same, shared with all callers that ask for it at the same time.
    pub(crate) async fn shared_workflow(&self, id: &Id) -> Result<Arc<Workflow>, ToolError> {
        let (workflows, now, request) = (&self.shared_workflows, Instant::now(), self.workflow(id));
        shared(workflows, id.clone(), now, Duration::ZERO, request).await
    }

    /// The versions of a workflow whose draft is not what is live, and who has written the draft, if n8n says so.
    pub(crate) async fn unpublished(&self, workflow: &Workflow) -> Option<UnpublishedDraft> {
        let mut found = workflow.unpublished_draft()?;
        let path = [
            "workflows",
            workflow.id.as_str(),
            "versions",
            &found.draft_version,
        ];
        let version: Value = self.get(&path, &[]).await.unwrap_or_default();
        let text = |member: &str| version[member].as_str().map(str::to_owned);
        (found.changed_by, found.changed_at) = (text("authors"), text("createdAt"));
        Some(found)
    }

    /// The workflows of a query, with their nodes, as far as they can be read.
    pub(crate) async fn all_workflows(
        &self,
        query: &[(&str, &str)],
    ) -> Result<Vec<Workflow>, ToolError> {
        let query = [query, &[("excludePinnedData", "true")]].concat();
        Ok(self.all("Workflow", &["workflows"], &query).await?.0)
    }
}

/// Longer than for other requests: n8n activates an active workflow again when it changes.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest time that n8n needs to deactivate a workflow before it deletes it: if all of its
/// workers are busy, the deactivation waits for n8n's next poll, every 15 s.
const DEACTIVATION_TIMEOUT: Duration = Duration::from_secs(20);
/// The time until n8n runs a version that it has published.
const PUBLISHING_TIME: Duration = Duration::from_millis(1_500);
const DELETE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tag {
    id: String,
    pub(crate) name: String,
}

/// The right to change a workflow, for as long as it lives.
pub(crate) struct WorkflowLock {
    id: Id,
    _guard: OwnedMutexGuard<()>,
}

impl Api {
    pub(crate) async fn lock(&self, id: &Id) -> WorkflowLock {
        let lock = slot(&self.locks, id.clone());
        WorkflowLock {
            id: id.clone(),
            _guard: lock.lock_owned().await,
        }
    }
}

#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Written {
    id: String,
    name: String,
    active: bool,
    /// Pass it to the next change, which then detects other changes.
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    /// n8n would reject these parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// These may be problems; with allow_invalid there are errors, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The live version has not changed, as it was wanted or since others have changed the draft.
    #[serde(skip)]
    pub(crate) is_draft: bool,
}

impl Written {
    pub(crate) fn new(workflow: Workflow, left_out: Vec<String>) -> Self {
        Self {
            id: workflow.id.to_string(),
            name: workflow.name,
            active: workflow.active,
            version: workflow.updated_at,
            left_out,
            ..Self::default()
        }
    }

    /// Adds the findings of its checks, and a note on those that were skipped.
    pub(crate) fn with_checks(self, (warnings, note): (Vec<Finding>, String)) -> Self {
        Self { warnings, ..self }.with_note(&note)
    }

    /// Adds a note, unless it is empty.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        let notes = self.note.as_deref().into_iter().chain([note]);
        let notes: Vec<_> = notes.filter(|note| !note.is_empty()).collect();
        self.note = Some(notes.join(" ")).filter(|note| !note.is_empty());
        self
    }
}

const IN_NO_FOLDER: &str = "It is in no folder, since n8n's API does not tell the folder of the original: \
    move_workflow moves it.";
const LIVE: &str = "It is active: the change is live in a moment.";
const DRAFT: &str = "Written as a draft: the version that is live has not changed. activate_workflow publishes the \
    draft; publish=true does so with a change.";

/// n8n takes a change of whatever came before it, and nothing locks a workflow for other programs.
const OVERLAPPED: &str = "Somebody else has changed the workflow in the same moment, and their change may be gone from \
    it: compare with the versions of list_workflow_versions.";

/// The changes that this server has made last, by workflow.
pub(super) type OwnChanges = Mutex<HashMap<Id, OwnChange>>;

#[derive(Default)]
pub(super) struct OwnChange {
    /// The draft, if it differs from what is live by changes of this server only.
    draft: Option<String>,
    published: Option<Instant>,
}

impl Api {
    /// Waits until n8n runs what was published last: it answers before that.
    pub(crate) async fn settle(&self, id: &Id) {
        let published = self
            .own_changes
            .lock()
            .get(id)
            .and_then(|one| one.published);
        if let Some(published) = published {
            sleep_until(published + PUBLISHING_TIME).await;
        }
    }

    /// Remembers that n8n was made to publish another version of an active workflow.
    pub(crate) fn note_published(&self, id: &Id) {
        let mut changes = self.own_changes.lock();
        changes.entry(id.clone()).or_default().published = Some(Instant::now());
    }

    /// Creates a workflow in this project, or, if there is none or n8n refuses it, in that of the API key's user.
    pub(crate) async fn create_workflow(
        &self,
        draft: &Draft,
        project: Option<&str>,
    ) -> Result<Written, ToolError> {
        self.policy.check_create()?;
        let (body, mut left_out) = draft.body().map_err(ToolError::invalid_argument)?;
        let is_reviewed = self.policy.requires_review;
        let mut new = body.clone();
        if is_reviewed {
            // Its nodes come once it is marked: after a lost answer nobody could mark it.
            new["nodes"] = json!([]);
            new["connections"] = json!({});
        }
        let (mut note, mut placed) = (String::new(), new.clone());
        if let Some(project) = project {
            placed["projectId"] = project.into();
        }
        let mut created = self.write(Method::POST, &["workflows"], &placed).await;
        if let (Some(project), Err(failure)) = (project, &created)
            && let Some(400 | 403 | 404) = failure.status().map(|status| status.as_u16())
        {
            let reason = self.complaint(failure);
            let reason =
                reason.unwrap_or_else(|| "this API key may not create workflows in it.".into());
            note = format!(
                "It is in the project of the API key's user, and not in that of the original ({project}): {reason}"
            );
            created = self.write(Method::POST, &["workflows"], &new).await;
        }
        let mut workflow = created.map_err(|failure| self.explain(failure))?;
        left_out.extend(draft.lost_settings(&workflow.settings));
        let is_in = |project: &str| workflow.projects.iter().any(|own| own == project);
        if project.is_some_and(is_in) {
            note.clear();
        }
        if let Some(project) = project
            && note.is_empty()
            && self.has_folders(project).await
        {
            IN_NO_FOLDER.clone_into(&mut note);
        }
        let id = workflow.id.clone();
        let is_open = self.policy.is_open() || self.workflow(&id).await.is_ok();
        let kept = match is_open {
            // Without its tag it could be started without a review.
            true => self.mark_for_review(&id).await,
            false => Err(ToolError::forbidden(NEW_IS_CLOSED)),
        };
        let kept = match kept {
            Ok(()) if is_reviewed => self.write_nodes(&id, &body).await?.map(|it| workflow = it),
            kept => kept,
        };
        if let Err(error) = kept {
            let why = match is_open {
                true => " and could not be marked for a review, or be given its nodes",
                false => ", and the operator does not allow it",
            };
            let deleted = self.delete_workflow(&id).await;
            deleted.map_err(|error| after(&format!("Workflow {id} was created{why}."), error))?;
            return Err(error);
        }
        Ok(Written::new(workflow, left_out).with_note(&note))
    }

    /// Gives a new workflow, which is marked for a review, its nodes. The inner error is n8n's refusal.
    ///
    /// # Errors
    /// It is not known whether they were written.
    async fn write_nodes(
        &self,
        id: &Id,
        body: &Value,
    ) -> Result<Result<Workflow, ToolError>, ToolError> {
        let path = ["workflows", id.as_str()];
        match self.write(Method::PUT, &path, body).await {
            Ok(workflow) => Ok(Ok(workflow)),
            Err(failure) if failure.refusal().is_some() && !failure.is_transient() => {
                Ok(Err(self.explain(failure)))
            }
            Err(failure) => Err(after(
                &format!(
                    "Workflow {id} was created and marked for a review, and may lack its nodes: get_workflow tells."
                ),
                self.explain(failure),
            )),
        }
    }

    /// True if the project has folders: n8n has none without a licence.
    async fn has_folders(&self, project: &str) -> bool {
        let folders: Result<Value, _> = self.get(&["projects", project, "folders"], &[]).await;
        folders.is_ok_and(|folders| folders["count"].as_u64() > Some(0))
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
    ) -> Result<Written, ToolError> {
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
    ) -> Result<Written, ToolError> {
        let (body, mut left_out) = draft.body().map_err(ToolError::invalid_argument)?;
        // Before the change, so that nothing starts it in between.
        self.mark_for_review(id).await?;
        let before = self.workflow(id).await?;
        if (&before.updated_at, &before.version_id) != (&version.0, &version.1) {
            return Err(changed_meanwhile(id));
        }
        self.policy.check_write(&before)?;
        // n8n is asked to publish exactly the version that was written.
        let written = self
            .write(Method::PUT, &["workflows", id.as_str()], &body)
            .await;
        let (mut workflow, refusal) = match written {
            Ok(workflow) => (workflow, String::new()),
            Err(failure) => self.written_although(&before, id, failure).await?,
        };
        left_out.extend(draft.lost_settings(&workflow.settings));
        let counted = before.version_counter.zip(workflow.version_counter);
        let is_alone = counted.is_none_or(|(before, now)| now <= before + 1);
        let (mut note, mut is_draft) = (String::new(), false);
        if let Some(unpublished) = workflow.unpublished_draft() {
            let old = before.unpublished_draft().map(|old| old.draft_version);
            let new = unpublished.draft_version.clone();
            // Otherwise the draft held changes of others that are not live: they would be published, too.
            let is_ours = {
                let mut changes = self.own_changes.lock();
                let own = changes.entry(id.clone()).or_default();
                let is_ours = old.is_none() || old == own.draft;
                own.draft = is_ours.then_some(new);
                is_ours
            };
            is_draft = !publish || !is_ours;
            note = if !publish {
                DRAFT.to_owned()
            } else if is_ours {
                self.publish(&mut workflow, id, unpublished).await
            } else {
                format!(
                    "Written as a draft, and not published: the draft already differed from the version that is \
                     live ({}), which has not changed. activate_workflow publishes the whole draft, with those \
                     differences.",
                    unpublished.live_version
                )
            };
        } else if workflow.active && refusal.is_empty() {
            note = LIVE.to_owned();
        }
        let written = Written::new(workflow, left_out)
            .with_note(&note)
            .with_note(&refusal);
        Ok(Written {
            is_draft,
            ..written.with_note(if is_alone { "" } else { OVERLAPPED })
        })
    }

    /// The workflow that n8n has written although it refused the call, and why: with new settings it publishes the
    /// live version once more, after it has written them.
    async fn written_although(
        &self,
        before: &Workflow,
        id: &Id,
        failure: HttpFailure,
    ) -> Result<(Workflow, String), ToolError> {
        let is_refused = failure.refusal().is_some() && !failure.is_transient();
        let refusal = self.explain(failure);
        let now = match before.active && is_refused {
            true => self.workflow(id).await.ok(),
            false => None,
        };
        let state = |of: &Workflow| (of.updated_at.clone(), of.version_id.clone());
        let Some(now) = now.filter(|now| state(now) != state(before)) else {
            return Err(refusal);
        };
        let active = match now.active {
            true => "It is still active",
            false => "n8n has deactivated it",
        };
        let note = format!(
            "All of it was written, and the new settings hold, but n8n could not publish the live version with them \
             again: {} {active}. Mend the cause; activate_workflow publishes it.",
            refusal.message()
        );
        Ok((now, note))
    }

    /// Publishes a version; returns what became of it, in words.
    async fn publish(&self, workflow: &mut Workflow, id: &Id, version: UnpublishedDraft) -> String {
        let path = ["workflows", id.as_str(), "activate"];
        let body = json!({"versionId": version.draft_version});
        let request = self.request(Method::POST, &path).body(&body);
        let failure = match request.timeout(CHANGE_TIMEOUT).json::<IgnoredAny>().await {
            Ok(_) => {
                self.note_published(id);
                return LIVE.to_owned();
            }
            Err(failure) => failure,
        };
        let is_refused = failure.refusal().is_some() && !failure.is_transient();
        let reason = self.explain(failure).message().to_owned();
        match self.workflow(id).await {
            Ok(now) if now.active_version_id.as_ref() == Some(&version.draft_version) => {
                self.note_published(id);
                LIVE.to_owned()
            }
            Ok(now) if is_refused => {
                // n8n deactivates a workflow whose triggers it cannot start.
                workflow.active = now.active;
                let live = match now.active {
                    true => "The version that is live has not changed.",
                    false => "n8n has deactivated the workflow.",
                };
                format!(
                    "Written as a draft, which n8n does not publish: {reason} {live} Mend the draft; \
                     activate_workflow publishes it."
                )
            }
            _ => format!(
                "Written as a draft. It is not known whether n8n has published it: {reason} get_workflow shows \
                 whether the draft differs from what is live."
            ),
        }
    }

    /// Writes a definition; the last version of an active workflow stays live.
    pub(super) async fn write(
        &self,
        method: Method,
        path: &[&str],
        body: &Value,
    ) -> Result<Workflow, HttpFailure> {
        let query = (method == Method::PUT).then_some(("publishIfActive", "false"));
        let request = self
            .request(method, path)
            .query(query.as_slice())
            .body(body);
        request.timeout(CHANGE_TIMEOUT).json().await
    }

    /// Moves a workflow, whose definition is `draft` at this moment, to a folder of its project, or to its `root`.
    pub(crate) async fn move_to_folder(
        &self,
        WorkflowLock { id, .. }: &WorkflowLock,
        draft: &Draft,
        folder: &Id,
    ) -> Result<(), ToolError> {
        let folder = Some(folder.as_str()).filter(|folder| *folder != "root");
        let (mut body, left_out) = draft.body().map_err(ToolError::invalid_argument)?;
        if !left_out.is_empty() {
            return Err(ToolError::conflict(format!(
                "n8n's API moves a workflow only by writing all of it, and does not take {}: that would be lost. \
                 Nothing was moved. Move it in n8n's editor.",
                left_out.join(", ")
            )));
        }
        body["parentFolderId"] = json!(folder);
        let path = ["workflows", id.as_str()];
        match self.write(Method::PUT, &path, &body).await {
            Ok(_) => Ok(()),
            Err(failure) if is_missing(&failure) => Err(ToolError::not_found(
                "The workflow's project has no such folder. read_n8n_api shows the folders of a project; n8n \
                 has folders only with a licence.",
            )),
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Applies `activate`, `deactivate`, `archive` or `unarchive` to a workflow that no other call changes.
    pub(crate) async fn act(&self, id: &Id, action: &str) -> Result<Workflow, ToolError> {
        let path = ["workflows", id.as_str(), action];
        let request = self.request(Method::POST, &path).body(&json!({}));
        let changed = request.timeout(CHANGE_TIMEOUT).json().await;
        changed.map_err(|failure| self.explain(failure))
    }

    /// Deletes a workflow. Succeeds also if n8n does not have it: an earlier try, or another server, has deleted it.
    pub(crate) async fn delete_workflow(&self, id: &Id) -> Result<(), ToolError> {
        let retry_until = Instant::now() + DEACTIVATION_TIMEOUT;
        loop {
            let path = ["workflows", id.as_str()];
            let failure = match self.request(Method::DELETE, &path).json().await {
                Ok(IgnoredAny) => return Ok(()),
                Err(failure) if is_missing(&failure) => return Ok(()),
                Err(failure) => failure,
            };
            // n8n's own work on the workflow makes the deletion fail, sometimes after the fact.
            let fails = failure.status() == Some(StatusCode::INTERNAL_SERVER_ERROR);
            // It is still being deactivated: nothing was deleted.
            let is_busy = is_conflict(&failure);
            if (fails || is_busy) && Instant::now() < retry_until {
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

    async fn tags(&self) -> Result<Vec<Tag>, HttpFailure> {
        Ok(self.all("Tag", &["tags"], &[]).await?.0)
    }

    /// Replaces the tags of a workflow; creates those that do not exist yet.
    pub(crate) async fn set_tags(&self, id: &Id, names: &[String]) -> Result<(), ToolError> {
        let setting = async {
            let mut known = self.tags().await?;
            for name in names {
                if known.iter().any(|tag| tag.name == *name) {
                    continue;
                }
                let tag = json!({ "name": name });
                match self.send(Method::POST, &["tags"], &tag).await {
                    Ok(made) => known.push(made),
                    // Another call has made it meanwhile.
                    Err(failure) if is_conflict(&failure) => {
                        known = self.tags().await?;
                        if known.iter().all(|tag| tag.name != *name) {
                            return Err(failure);
                        }
                    }
                    Err(failure) => return Err(failure),
                }
            }
            let tags = known.iter().filter(|tag| names.contains(&tag.name));
            let ids = tags.map(|tag| json!({"id": tag.id})).collect();
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
        Some(hide_names(&complaint(failure)?, is_open))
    }

    fn explain(&self, failure: HttpFailure) -> ToolError {
        if let Some(complaint) = self.complaint(&failure) {
            return ToolError::invalid_argument(format!("n8n refuses this: {complaint}"));
        }
        if is_conflict(&failure) {
            return ToolError::conflict(
                "n8n refuses this: another active workflow has a webhook with the same method and \
                 path, or the workflow is being changed right now.",
            );
        }
        failure.into()
    }
}

/// The error for a workflow that has changed since it was read.
pub(crate) fn changed_meanwhile(id: &Id) -> ToolError {
    ToolError::conflict(format!(
        "Workflow {id} was changed since it was read; nothing was written. Read it again with get_workflow \
         and repeat the change."
    ))
}

const MAX_LOOKUPS: usize = 8;

impl Api {
    pub(super) fn admit(&self, workflow: &Workflow, id: &Id) -> Result<(), ToolError> {
        let is_open = self.policy.admits(workflow);
        is_open.then_some(()).ok_or_else(|| not_open(id))
    }

    /// The same, asking n8n only if the policy depends on tags or projects.
    pub(crate) async fn admit_id(&self, id: &Id) -> Result<(), ToolError> {
        match self.policy.admits_id(id.as_str()) {
            Some(true) => Ok(()),
            Some(false) => Err(not_open(id)),
            None => self.workflow(id).await.map(drop),
        }
    }

    /// Rejects references of `draft` to workflows that the policy does not allow, except ids that it
    /// had `before`. Where the workflow is known only when it runs, other nodes decide which: that is
    /// rejected even if it is old.
    pub(crate) async fn admit_called(
        &self,
        before: Option<&Draft>,
        draft: &Draft,
    ) -> Result<(), ToolError> {
        if self.policy.is_open() {
            return Ok(());
        }
        let called_by = |draft: &Draft| called_workflows(&draft.settings, &draft.nodes);
        let old = before.map(called_by).unwrap_or_default();
        let called = called_by(draft).into_iter();
        for (place, id) in called.filter(|one| one.1.is_none() || !old.contains(one)) {
            let admitted = match &id {
                Some(id) => self.admit_id(id).await,
                None => Err(ToolError::forbidden("")),
            };
            match admitted {
                Err(error) if error.kind() == Forbidden => {
                    let id = id.map_or("only known when it runs".to_owned(), |id| id.to_string());
                    return Err(ToolError::forbidden(format!(
                        "Nothing was written: {place} starts a workflow ({id}), and the operator \
                         limits this server to certain workflows (N8N_ALLOW_WORKFLOWS, \
                         N8N_DENY_WORKFLOWS). Name one of those by its id."
                    )));
                }
                // One that n8n does not have starts nothing.
                Err(error) if error.kind() != NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Rejects a start of these nodes of a workflow in a mode in which n8n runs the drafts of the workflows that they
    /// call, if one of those, or of those that they call, was not reviewed.
    pub(crate) async fn check_called(
        &self,
        workflow: &Workflow,
        nodes: &[Node],
    ) -> Result<(), ToolError> {
        if !self.policy.requires_review {
            return Ok(());
        }
        let with_caller = |caller: &Workflow, nodes: &[Node]| {
            let called = called_workflows(&caller.settings, nodes).into_iter();
            let called = called.map(|(_, id)| (caller.id.clone(), id));
            called.collect::<Vec<_>>()
        };
        let mut open = with_caller(workflow, nodes);
        let mut seen = HashSet::new();
        while let Some((caller, id)) = open.pop() {
            let id = id.ok_or_else(|| {
                ToolError::forbidden(format!(
                    "Workflow {caller} calls a workflow that is known only when it runs, and started in this way \
                     n8n would run its draft, which nobody may have reviewed (N8N_REQUIRE_REVIEW). Activate the \
                     workflow with a trigger that has a URL, or let a person run it in n8n."
                ))
            })?;
            if !seen.insert(id.clone()) {
                continue;
            }
            // Also one that the policy does not allow: nothing of it is shown.
            let called: Result<Workflow, _> = self.get(&["workflows", id.as_str()], &[]).await;
            let called = match called {
                Err(failure) if is_missing(&failure) => continue,
                called => called?,
            };
            self.policy.check_start(&called).map_err(|error| {
                let why = format!("Started in this way, workflow {caller} would run a draft.");
                after(&why, error)
            })?;
            open.extend(with_caller(&called, &called.nodes));
        }
        Ok(())
    }

    /// Rejects an execution of a workflow that the policy does not allow, or of an unknown one.
    pub(crate) async fn admit_execution(&self, execution: &Execution) -> Result<(), ToolError> {
        match &execution.workflow_id {
            Some(workflow) => self.admit_id(workflow).await,
            None if self.policy.is_open() => Ok(()),
            None => Err(not_open(&execution.id)),
        }
    }

    /// The `executions` in their place, or `None` for those whose workflows the policy does not allow.
    pub(crate) async fn admitted(
        &self,
        executions: Vec<Execution>,
    ) -> Result<Vec<Option<Execution>>, ToolError> {
        if self.policy.is_open() {
            return Ok(executions.into_iter().map(Some).collect());
        }
        let workflows = executions.iter().filter_map(|one| one.workflow_id.clone());
        let asked = stream::iter(workflows.collect::<HashSet<Id>>()).map(|id| async move {
            match self.admit_id(&id).await {
                Ok(()) => Ok(Some(id)),
                // Not allowed, or deleted since: then its tags and projects are unknown.
                Err(error) if matches!(error.kind(), Forbidden | NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let open: Vec<Option<Id>> = asked.buffer_unordered(MAX_LOOKUPS).try_collect().await?;
        let is_open =
            |one: &Execution| one.workflow_id.is_some() && open.contains(&one.workflow_id);
        Ok(executions
            .into_iter()
            .map(|one| Some(one).filter(is_open))
            .collect())
    }

    /// Tags a workflow that was written here as one that a person must review before it is started,
    /// if the operator requires that.
    pub(super) async fn mark_for_review(&self, id: &Id) -> Result<(), ToolError> {
        if !self.policy.requires_review {
            return Ok(());
        }
        let tags: Vec<Tag> = self.get(&["workflows", id.as_str(), "tags"], &[]).await?;
        let mut names: Vec<String> = tags.into_iter().map(|tag| tag.name).collect();
        if names.iter().any(|name| name == REVIEW_TAG) {
            return Ok(());
        }
        names.push(REVIEW_TAG.to_owned());
        self.set_tags(id, &names).await
    }
}
