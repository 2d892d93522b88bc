//! Applies the operator's policy to workflows and executions that n8n returns.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join_all;
use mcp_core::tool::{
    ToolError,
    ToolErrorKind::{Forbidden, NotFound},
};

use super::workflow::Tag;
use super::{Api, Execution, Workflow};
use crate::id::Id;
use crate::policy::{REVIEW_TAG, not_open};

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

    /// Rejects an execution of a workflow that the policy does not allow, or of an unknown one.
    pub(crate) async fn admit_execution(&self, execution: &Execution) -> Result<(), ToolError> {
        match &execution.workflow_id {
            Some(workflow) => self.admit_id(workflow).await,
            None if self.policy.is_open() => Ok(()),
            None => Err(not_open(&execution.id)),
        }
    }

    /// Returns the `executions` whose workflows the policy allows.
    pub(crate) async fn admitted(
        &self,
        executions: Vec<Execution>,
    ) -> Result<Vec<Execution>, ToolError> {
        if self.policy.is_open() {
            return Ok(executions);
        }
        let workflows = executions.iter().filter_map(|one| one.workflow_id.clone());
        let workflows: HashSet<Id> = workflows.collect();
        let asked = workflows.into_iter().map(|id| async move {
            match self.admit_id(&id).await {
                Ok(()) => Ok((id, true)),
                // Not allowed, or deleted since: then its tags and projects are unknown.
                Err(error) if matches!(error.kind(), Forbidden | NotFound) => Ok((id, false)),
                Err(error) => Err(error),
            }
        });
        let open: HashMap<Id, bool> = try_join_all(asked).await?.into_iter().collect();
        let is_open = |one: &Execution| one.workflow_id.as_ref().is_some_and(|id| open[id]);
        Ok(executions.into_iter().filter(is_open).collect())
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
