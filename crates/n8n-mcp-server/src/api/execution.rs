//! Reads, retries, stops and deletes executions.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use n8n_workflow::{Execution, Id};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};
use upstream::http::{HttpFailure, Method};

use super::failure::{is_conflict, is_missing, is_no_execution};
use super::shared::shared;
use super::{Api, Page, RawPage, after};

/// The delay of a page for each caller that waits for it: n8n, which also runs their workflows, is
/// busy with it.
const PAGE_SPACING: Duration = Duration::from_millis(10);

/// The time within which n8n runs an execution that was stopped before its start.
const STOP_CHECK_DELAY: Duration = Duration::from_millis(300);
const MAX_STOPS: u32 = 3;

#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionFilter {
    #[serde(rename = "workflowId")]
    pub(crate) workflow: Option<Id>,
    #[serde(rename = "projectId")]
    pub(crate) project: Option<Id>,
    pub(crate) limit: u32,
    /// n8n's name of a status. Without it n8n leaves out running executions.
    pub(crate) status: Option<&'static str>,
    /// RFC 3339.
    pub(crate) started_after: Option<String>,
    pub(crate) cursor: Option<String>,
}

impl ExecutionFilter {
    pub(crate) fn newest(workflow: Option<&Id>, status: Option<&'static str>, limit: u32) -> Self {
        Self {
            workflow: workflow.cloned(),
            status,
            limit,
            ..Self::default()
        }
    }
}

impl Api {
    /// An execution; `None` if n8n does not have it, or not any more.
    pub(crate) async fn execution<T: DeserializeOwned>(
        &self,
        id: &Id,
        with_data: bool,
    ) -> Result<Option<T>, HttpFailure> {
        let query = with_data.then_some(("includeData", "true"));
        let path = ["executions", id.as_str()];
        match self.get(&path, query.as_slice()).await {
            Ok(execution) => Ok(Some(execution)),
            Err(failure) if is_no_execution(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// One page of executions, newest first.
    pub(crate) async fn executions(
        &self,
        filter: &ExecutionFilter,
    ) -> Result<Page<Execution>, HttpFailure> {
        let request = self.request(Method::GET, &["executions"]);
        let page: RawPage = request.query(filter).json().await?;
        Ok(page.read("Execution"))
    }

    /// The same, shared with all callers that ask for this page since `since`.
    pub(crate) async fn shared_executions(
        &self,
        filter: &ExecutionFilter,
        since: Instant,
    ) -> Result<Arc<Page<Execution>>, ToolError> {
        let request = self.executions(filter);
        let spacing = if filter.limit > 1 {
            PAGE_SPACING
        } else {
            Duration::ZERO
        };
        shared(&self.shared_pages, filter.clone(), since, spacing, request).await
    }

    /// The JSON of an execution with its data, shared with all callers that ask for it since `since`; `None`
    /// if n8n does not have it.
    pub(crate) async fn shared_execution(
        &self,
        id: &Id,
        since: Instant,
    ) -> Result<Arc<Option<Box<RawValue>>>, ToolError> {
        let request = self.execution(id, true);
        let executions = &self.shared_executions;
        shared(executions, id.clone(), since, Duration::ZERO, request).await
    }

    pub(crate) async fn retry(
        &self,
        id: &Id,
        with_current_workflow: bool,
        within: Duration,
    ) -> Result<Execution, HttpFailure> {
        let path = ["executions", id.as_str(), "retry"];
        let body = json!({"loadWorkflow": with_current_workflow});
        let request = self.request(Method::POST, &path).body(&body);
        request.timeout(within).json().await
    }

    /// Deletes an execution. Succeeds also if n8n does not have it.
    pub(crate) async fn delete_execution(&self, id: &Id) -> Result<(), HttpFailure> {
        let request = self.request(Method::DELETE, &["executions", id.as_str()]);
        match request.json().await {
            Ok(IgnoredAny) => Ok(()),
            Err(failure) if is_no_execution(&failure) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Stops an execution. Succeeds also if it has ended already.
    ///
    /// n8n gives an execution its row before it counts it among the active ones. In between it answers OK to a
    /// stop, marks the row as canceled, and then runs the execution all the same: so the status is read again.
    pub(crate) async fn stop(&self, id: &Id) -> Result<(), ToolError> {
        let path = ["executions", id.as_str(), "stop"];
        for _ in 0..MAX_STOPS {
            match self.request(Method::POST, &path).json().await {
                Ok(IgnoredAny) => {}
                // Also of an execution that has just begun: n8n cannot stop it yet.
                Err(failure) if is_conflict(&failure) || is_missing(&failure) => {}
                Err(failure) => return Err(failure.into()),
            }
            sleep(STOP_CHECK_DELAY).await;
            let now = self.execution::<Execution>(id, false).await;
            let now = now.map_err(|error| after("n8n was told to stop it.", error.into()))?;
            if now.is_none_or(|execution| execution.status.has_ended()) {
                return Ok(());
            }
        }
        Err(ToolError::conflict(format!(
            "n8n was told to stop execution {id}, and it still runs."
        )))
    }
}
