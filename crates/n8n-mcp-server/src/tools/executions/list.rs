//! `list_executions`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::http::HttpFailure;
use upstream::time::{Since, Timestamp, parse_timestamp};

use crate::api::{Execution, ExecutionFilter, N8nFailure as _, Page as ApiPage};
use crate::id::Id;
use crate::run::RunStatus;
use crate::service::N8n;
use crate::tools::collection::check_cursor;

const DEFAULT_LIMIT: u32 = 20;

/// Lists executions, newest first, without their data.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListExecutions {
    /// Only of this workflow.
    workflow_id: Option<Id>,
    /// Only in this state.
    status: Option<Wanted>,
    /// Only of workflows in this project.
    project_id: Option<Id>,
    /// Only those that started since then: `30m`, `24h`, `7d` ago, or a time in RFC 3339.
    since: Option<String>,
    /// Page size; default 20.
    limit: Option<Bounded<1, 250>>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Completed,
    Failed,
    Crashed,
    Running,
    Waiting,
    Canceled,
}

/// A page of executions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Page {
    executions: Vec<Row>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
    execution_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    status: RunStatus,
    /// What started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<String>,
}

impl Tool for ListExecutions {
    const NAME: &'static str = "list_executions";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Page;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Page, ToolError> {
        let filter = self.filter()?;
        if let Some(workflow) = &filter.workflow {
            n8n.api.admit_id(workflow).await?;
        }
        let explain = |failure| explain(failure, &filter);
        let (mut executions, next_cursor) = page(n8n, &filter).await.map_err(explain)?;
        if filter.status.is_none() && filter.cursor.is_none() {
            // n8n leaves those that run out of what it calls all.
            let running = ExecutionFilter {
                status: Some("running"),
                ..filter.clone()
            };
            let (running, _) = page(n8n, &running).await.map_err(explain)?;
            let known = |one: &Execution| executions.iter().any(|other| other.id == one.id);
            let running: Vec<_> = running.into_iter().filter(|one| !known(one)).collect();
            executions.splice(0..0, running);
        }
        let executions = n8n.api.admitted(executions).await?;
        Ok(Page {
            executions: executions.into_iter().map(Row::from).collect(),
            next_cursor,
        })
    }
}

/// A page as n8n has it; one that does not know `startedAfter` (n8n 1) is not asked for it again.
async fn page(
    n8n: &N8n,
    filter: &ExecutionFilter,
) -> Result<(Vec<Execution>, Option<String>), HttpFailure> {
    let asked = n8n.api.executions(filter).await;
    let since = match (&asked, &filter.started_after) {
        (Err(failure), Some(since)) if is_about_time(failure) => since.clone(),
        _ => return asked.map(|page| (page.data, page.next_cursor)),
    };
    let without = ExecutionFilter {
        started_after: None,
        ..filter.clone()
    };
    let page: ApiPage<Execution> = n8n.api.executions(&without).await?;
    let all = page.data.len();
    // One that was not started yet is as new as can be.
    let is_new = |one: &Execution| {
        let started = one.started_at.as_deref().and_then(parse_timestamp);
        started.is_none_or(|started| Some(started) >= parse_timestamp(&since))
    };
    let data: Vec<_> = page.data.into_iter().filter(is_new).collect();
    let next = page.next_cursor.filter(|_| data.len() == all);
    Ok((data, next))
}

fn is_about_time(failure: &HttpFailure) -> bool {
    failure
        .complaint()
        .is_some_and(|text| text.contains("startedAfter") && text.contains("nknown"))
}

fn explain(failure: HttpFailure, filter: &ExecutionFilter) -> ToolError {
    match failure.complaint() {
        Some(text) if text.contains("startedAfter") => ToolError::invalid_argument(
            "`since` is no time that n8n understands; write it like 2026-01-31T12:00:00Z.",
        ),
        Some(_) if filter.cursor.is_some() => ToolError::invalid_argument(
            "`cursor` is not one that n8n handed out. Pass the `next_cursor` of the page before, \
             or none for the first page.",
        ),
        _ => failure.into(),
    }
}

impl ListExecutions {
    fn filter(self) -> Result<ExecutionFilter, ToolError> {
        check_cursor(self.cursor.as_deref())?;
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
            status: self.status.map(Wanted::in_words_of_n8n),
            started_after: started_after.transpose()?,
            limit: self.limit.map_or(DEFAULT_LIMIT, Bounded::get),
            cursor: self.cursor,
            ..ExecutionFilter::default()
        })
    }
}

impl Wanted {
    fn in_words_of_n8n(self) -> &'static str {
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

impl From<Execution> for Row {
    fn from(execution: Execution) -> Self {
        Self {
            execution_id: execution.id.to_string(),
            workflow_id: execution.workflow_id.map(|id| id.to_string()),
            status: execution.status.into(),
            mode: execution.mode,
            started_at: execution.started_at,
            stopped_at: execution.stopped_at,
            retry_of: execution.retry_of.map(|id| match id {
                serde_json::Value::String(id) => id,
                other => other.to_string(),
            }),
        }
    }
}
