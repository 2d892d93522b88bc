//! `list_executions`

use n8n_workflow::Execution;
use upstream::http::HttpFailure;
use upstream::time::{Since, Timestamp};

use crate::api::{ExecutionFilter, N8nFailure as _, Page, UNKNOWN_CURSOR};
use crate::run::RunStatus;
use crate::tools::filtered_page::filtered_page;
use crate::tools::prelude::*;

const DEFAULT_LIMIT: u32 = 20;

/// Lists executions, newest first, without their data.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListExecutions {
    /// Only of this workflow.
    workflow_id: Option<Id>,
    /// Only in this state.
    status: Option<StatusFilter>,
    /// Only of workflows in this project.
    project_id: Option<Id>,
    /// Only those that started since then: `30m`, `24h`, `7d` ago, or a time in RFC 3339.
    since: Option<String>,
    /// Page size; default 20.
    limit: Option<Bounded<1, 250>>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StatusFilter {
    Completed,
    Failed,
    Crashed,
    Running,
    Waiting,
    Canceled,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ExecutionPage {
    executions: Vec<ExecutionRow>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ExecutionRow {
    execution_id: String,
    workflow_id: Option<String>,
    status: RunStatus,
    /// Kind of trigger.
    mode: Option<String>,
    started_at: Option<String>,
    stopped_at: Option<String>,
    retry_of: Option<String>,
}

impl Tool for ListExecutions {
    const NAME: &'static str = "list_executions";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = ExecutionPage;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<ExecutionPage, ToolError> {
        let cursor = self.cursor.clone();
        let filter = self.filter()?;
        if let Some(workflow) = &filter.workflow {
            n8n.api.admit_id(workflow).await?;
        }
        let limit = filter.limit as usize;
        let fetch = |cursor| {
            let filter = ExecutionFilter {
                cursor,
                ..filter.clone()
            };
            async move {
                let page = page(n8n, &filter).await?;
                Ok((n8n.api.admitted(page.data).await?, page.next_cursor))
            }
        };
        let (mut executions, next_cursor) = filtered_page(limit, cursor.as_deref(), fetch).await?;
        if filter.status.is_none() && cursor.is_none() {
            // n8n lists running executions only if it is asked for them.
            let running = ExecutionFilter {
                status: Some("running"),
                ..filter.clone()
            };
            let running = page(n8n, &running).await?.data;
            let running = n8n.api.admitted(running).await?.into_iter().flatten();
            let known = |one: &Execution| executions.iter().any(|other| other.id == one.id);
            let running: Vec<_> = running.filter(|one| !known(one)).collect();
            executions.splice(0..0, running);
        }
        Ok(ExecutionPage {
            executions: executions.into_iter().map(ExecutionRow::from).collect(),
            next_cursor,
        })
    }
}

/// A page of n8n's list.
async fn page(n8n: &N8n, filter: &ExecutionFilter) -> Result<Page<Execution>, ToolError> {
    let listed = n8n.api.executions(filter).await;
    listed.map_err(|failure| explain(failure, filter))
}

fn explain(failure: HttpFailure, filter: &ExecutionFilter) -> ToolError {
    match failure.complaint() {
        Some(text) if text.contains("startedAfter") => ToolError::invalid_argument(
            "`since` is not a time that n8n accepts; write it like 2026-01-31T12:00:00Z.",
        ),
        Some(_) if filter.cursor.is_some() => ToolError::invalid_argument(UNKNOWN_CURSOR),
        _ => failure.into(),
    }
}

impl ListExecutions {
    fn filter(self) -> Result<ExecutionFilter, ToolError> {
        let started_after = self.since.map(|text| {
            let since = Since::parse(text.trim()).ok_or_else(|| {
                ToolError::invalid_argument(format!(
                    "`since` is {text:?}: give how long ago (`30m`, `24h`, `7d`) or a time such as \
                     2026-01-31T12:00:00Z."
                ))
            })?;
            Ok::<_, ToolError>(since.from(Timestamp::now()).to_string())
        });
        Ok(ExecutionFilter {
            workflow: self.workflow_id,
            project: self.project_id,
            status: self.status.map(StatusFilter::n8n_name),
            started_after: started_after.transpose()?,
            limit: self.limit.map_or(DEFAULT_LIMIT, Bounded::get),
            ..ExecutionFilter::default()
        })
    }
}

impl StatusFilter {
    fn n8n_name(self) -> &'static str {
        match self {
            Self::Completed => "success",
            Self::Failed => "error",
            Self::Crashed => "crashed",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Canceled => "canceled",
        }
    }
}

impl From<Execution> for ExecutionRow {
    fn from(execution: Execution) -> Self {
        Self {
            execution_id: execution.id.to_string(),
            retry_of: execution.retry_of.map(|id| id.to_string()),
            workflow_id: execution.workflow_id.map(|id| id.to_string()),
            status: execution.status.into(),
            mode: execution.mode,
            started_at: execution.started_at,
            stopped_at: execution.stopped_at,
        }
    }
}
