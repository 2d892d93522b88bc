//! Applies the operator's policy to workflows and executions that n8n returns.

use std::collections::HashSet;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use mcp_core::tool::{
    ToolError,
    ToolErrorKind::{Forbidden, NotFound},
};
use n8n_workflow::draft::{Draft, called_workflows};
use n8n_workflow::{Execution, Id, Workflow};

use super::Api;
use super::write::TagRow;
use crate::policy::{REVIEW_TAG, not_open};

/// Workflows that n8n is asked for at the same time.
const MAX_LOOKUPS: usize = 8;

impl Api {
    /// Rejects a workflow that the policy does not allow.
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
        let old = before.map(called_workflows).unwrap_or_default();
        let called = called_workflows(draft).into_iter();
        for new in called.filter(|one| one.id().is_none() || !old.contains(one)) {
            let (place, id) = (&new.place, new.id());
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
        let workflows = executions.iter().filter_map(|one| one.workflow_id.clone());
        let open = self.open_workflows(workflows.collect()).await?;
        let is_open = |one: &Execution| match &one.workflow_id {
            Some(id) => open.contains(id),
            None => self.policy.is_open(),
        };
        Ok(executions
            .into_iter()
            .map(|one| Some(one).filter(is_open))
            .collect())
    }

    /// The ones of `workflows` that the policy allows.
    pub(crate) async fn open_workflows(
        &self,
        workflows: HashSet<Id>,
    ) -> Result<HashSet<Id>, ToolError> {
        if self.policy.is_open() {
            return Ok(workflows);
        }
        let asked = stream::iter(workflows).map(|id| async move {
            match self.admit_id(&id).await {
                Ok(()) => Ok(Some(id)),
                // Not allowed, or deleted since: then its tags and projects are unknown.
                Err(error) if matches!(error.kind(), Forbidden | NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let asked: Vec<Option<Id>> = asked.buffer_unordered(MAX_LOOKUPS).try_collect().await?;
        Ok(asked.into_iter().flatten().collect())
    }

    /// Tags a workflow that was written here as one that a person must review before it is started,
    /// if the operator requires that.
    pub(super) async fn mark_for_review(&self, id: &Id) -> Result<(), ToolError> {
        if !self.policy.requires_review {
            return Ok(());
        }
        let tags: Vec<TagRow> = self.get(&["workflows", id.as_str(), "tags"], &[]).await?;
        let mut names: Vec<String> = tags.into_iter().map(|tag| tag.name).collect();
        if names.iter().any(|name| name == REVIEW_TAG) {
            return Ok(());
        }
        names.push(REVIEW_TAG.to_owned());
        self.set_tags(id, &names).await
    }
}
