//! The operator's policy, where workflows come in: nothing passes that is not open.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use mcp_core::tool::ToolError;

use super::{Api, Execution, Tag, Workflow};
use crate::id::Id;
use crate::policy::{REVIEW_TAG, closed};

impl Api {
    /// The workflow, if it is open.
    pub(super) fn admit(&self, workflow: &Workflow, id: &Id) -> Result<(), ToolError> {
        if self.policy.admits(workflow) {
            Ok(())
        } else {
            Err(closed(id))
        }
    }

    /// Refuses a workflow that is not open, asking n8n only where its tags or projects decide.
    pub(crate) async fn admit_id(&self, id: &Id) -> Result<(), ToolError> {
        match self.policy.admits_id(id.as_str()) {
            Some(true) => Ok(()),
            Some(false) => Err(closed(id)),
            None => self.workflow(id).await.map(drop),
        }
    }

    /// Refuses an execution of a workflow that is not open, or that nobody can tell of.
    pub(crate) async fn admit_execution(&self, execution: &Execution) -> Result<(), ToolError> {
        match &execution.workflow_id {
            Some(workflow) => self.admit_id(workflow).await,
            None if self.policy.is_open() => Ok(()),
            None => Err(closed(&execution.id)),
        }
    }

    /// Returns the `executions` whose workflows are open.
    pub(crate) async fn admitted(
        &self,
        executions: Vec<Execution>,
    ) -> Result<Vec<Execution>, ToolError> {
        if self.policy.is_open() {
            return Ok(executions);
        }
        let mut open: HashMap<String, bool> = HashMap::new();
        let mut unknown: Vec<Id> = Vec::new();
        for id in executions
            .iter()
            .filter_map(|execution| execution.workflow_id.as_ref())
        {
            match self.policy.admits_id(id.as_str()) {
                Some(admitted) => _ = open.insert(id.to_string(), admitted),
                None if !unknown.contains(id) => unknown.push(id.clone()),
                None => {}
            }
        }
        let asked = unknown.iter().map(|id| async move {
            match self.admit_id(id).await {
                Ok(()) => Ok((id.to_string(), true)),
                // Closed, or deleted since: then nobody can tell what it was.
                Err(error) if is_answer(&error) => Ok((id.to_string(), false)),
                Err(error) => Err(error),
            }
        });
        open.extend(try_join_all(asked).await?);
        let admitted = |execution: &Execution| {
            let id = execution.workflow_id.as_ref();
            id.is_some_and(|id| open.get(id.as_str()) == Some(&true))
        };
        Ok(executions.into_iter().filter(admitted).collect())
    }

    /// Marks a workflow that was written here as one that a person must see before it is started.
    /// Does nothing unless the operator wants that.
    pub(crate) async fn mark_for_review(&self, id: &Id) -> Result<(), ToolError> {
        if !self.policy.requires_review() {
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

fn is_answer(error: &ToolError) -> bool {
    use mcp_core::tool::ToolErrorKind::{Forbidden, NotFound};
    matches!(error.kind(), Forbidden | NotFound)
}
