//! `list_executions`

use std::collections::{HashMap, HashSet};

use futures_util::stream::{self, StreamExt as _};
use n8n_workflow::trace::Trace;
use n8n_workflow::{Execution, Status};
use upstream::http::HttpFailure;
use upstream::text::first_line;
use upstream::time::{Since, Timestamp};

use crate::api::{ExecutionFilter, Page, Rest, UNKNOWN_CURSOR, complaint};
use crate::outcome::RunStatus;
use crate::tools::collection::filtered_page;
use crate::tools::prelude::*;

const DEFAULT_LIMIT: u32 = 20;
const GROUPED_LIMIT: u32 = 250;
/// Failed executions that are read for their errors, as each may be large, and so many at a time.
const MAX_ERRORS: usize = 50;
const CONCURRENT_READS: usize = 4;
const MAX_ERROR: usize = 200;

/// Lists executions, newest first, without their data, and failed ones with their error.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListExecutions {
    /// Show only executions of this workflow.
    workflow_id: Option<Id>,
    /// Show only executions in this state.
    status: Option<StatusFilter>,
    /// Show only executions of workflows in this project.
    project_id: Option<Id>,
    /// Show only executions that started since then: `30m`, `24h`, `7d` ago, or a time in RFC 3339.
    since: Option<String>,
    /// Show only counts of failures, by workflow and cause.
    #[serde(default)]
    group: bool,
    /// The page size is 20 by default, and 250 with `group`.
    limit: Option<Bounded<1, 250>>,
    /// The previous page returns it as `next_cursor`.
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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExecutionPage {
    executions: Option<Vec<ExecutionRow>>,
    /// The most frequent group comes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<FailureGroup>,
    /// The errors of older failures were not read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    #[serde(flatten)]
    rest: Rest,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ExecutionRow {
    execution_id: String,
    workflow_id: Option<String>,
    workflow_name: Option<String>,
    status: RunStatus,
    failed_node: Option<String>,
    /// It is the first line of the error.
    error: Option<String>,
    /// It is the kind of the trigger.
    mode: Option<String>,
    started_at: Option<String>,
    stopped_at: Option<String>,
    retry_of: Option<String>,
}

/// They are failures of one workflow with the same cause.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct FailureGroup {
    workflow_id: Option<String>,
    workflow_name: Option<String>,
    failed_node: Option<String>,
    error: Option<String>,
    count: usize,
    first_at: Option<String>,
    last_at: Option<String>,
    /// It is the newest of them.
    execution_id: String,
}

impl Tool for ListExecutions {
    const NAME: &'static str = "list_executions";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = ExecutionPage;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<ExecutionPage, ToolError> {
        let (cursor, group) = (self.cursor.clone(), self.group);
        let mut filter = self.filter()?;
        if group {
            filter.status.get_or_insert("error");
        }
        if let Some(workflow) = &filter.workflow {
            n8n.api.admit_id(workflow).await?;
        }
        let limit = filter.limit as usize;
        let fetch = async |cursor| {
            let filter = ExecutionFilter {
                cursor,
                ..filter.clone()
            };
            let Page { data, rest } = page(n8n, &filter).await?;
            let data = n8n.api.admitted(data).await?;
            Ok(Page { data, rest })
        };
        let listed = filtered_page(limit, cursor.as_deref(), fetch).await?;
        let (mut executions, mut rest) = (listed.data, listed.rest);
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
        // Their workflows are unknown.
        rest.left_out.retain(|_| n8n.api.policy.is_open());
        let (executions, cut) = rows(n8n, executions).await;
        let (executions, groups) = match group {
            true => (None, groups(executions)),
            false => (Some(executions), Vec::new()),
        };
        Ok(ExecutionPage {
            executions,
            groups,
            cut,
            rest,
        })
    }
}

/// The rows, with what n8n's list does not hold: names of workflows and errors; true if there are more errors.
async fn rows(n8n: &N8n, executions: Vec<Execution>) -> (Vec<ExecutionRow>, bool) {
    let ids: HashSet<Id> = executions
        .iter()
        .filter_map(|one| one.workflow_id.clone())
        .collect();
    let names = stream::iter(ids).map(|id| async move {
        let workflow = n8n.api.workflow(&id).await.ok()?;
        Some((id, workflow.name))
    });
    let names: Vec<_> = names.buffer_unordered(CONCURRENT_READS).collect().await;
    let names: HashMap<Id, String> = names.into_iter().flatten().collect();
    let failed = executions
        .iter()
        .filter(|one| matches!(one.status, Status::Error | Status::Crashed));
    let cut = failed.clone().count() > MAX_ERRORS;
    let ids: Vec<Id> = failed.take(MAX_ERRORS).map(|one| one.id.clone()).collect();
    let redactor = &n8n.redactor();
    let errors = stream::iter(ids).map(|id| async move {
        let read: Execution = n8n.api.execution(&id, true).await.ok()??;
        let (node, message) = Trace::read(read.data.as_deref()).failure();
        Some((id, (node, first_line(&redactor.text(&message), MAX_ERROR))))
    });
    let errors: Vec<_> = errors.buffer_unordered(CONCURRENT_READS).collect().await;
    let mut errors: HashMap<Id, _> = errors.into_iter().flatten().collect();
    let row = |execution: Execution| {
        let (failed_node, error) = errors.remove(&execution.id).unzip();
        let name = execution.workflow_id.as_ref().and_then(|id| names.get(id));
        ExecutionRow {
            execution_id: execution.id.to_string(),
            workflow_name: name.cloned(),
            workflow_id: execution.workflow_id.map(|id| id.to_string()),
            status: execution.status.into(),
            failed_node: failed_node.flatten(),
            error,
            mode: execution.mode,
            started_at: execution.started_at,
            stopped_at: execution.stopped_at,
            retry_of: execution.retry_of.map(|id| id.to_string()),
        }
    };
    (executions.into_iter().map(row).collect(), cut)
}

/// Failures with the same workflow, node and error, of rows from the newest on.
fn groups(rows: Vec<ExecutionRow>) -> Vec<FailureGroup> {
    let mut groups: Vec<FailureGroup> = Vec::new();
    for row in rows {
        let same = groups.iter_mut().find(|one| {
            one.workflow_id == row.workflow_id
                && one.failed_node == row.failed_node
                && one.error == row.error
        });
        match same {
            Some(group) => {
                group.count += 1;
                group.first_at = row.started_at;
            }
            None => groups.push(FailureGroup {
                workflow_id: row.workflow_id,
                workflow_name: row.workflow_name,
                failed_node: row.failed_node,
                error: row.error,
                count: 1,
                first_at: row.started_at.clone(),
                last_at: row.started_at,
                execution_id: row.execution_id,
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

async fn page(n8n: &N8n, filter: &ExecutionFilter) -> Result<Page<Execution>, ToolError> {
    let listed = n8n.api.executions(filter).await;
    listed.map_err(|failure| explain(failure, filter))
}

fn explain(failure: HttpFailure, filter: &ExecutionFilter) -> ToolError {
    match complaint(&failure) {
        Some(text) if text.contains("startedAfter") => ToolError::invalid_argument(
            "`since` is not a time that n8n accepts; write it like 2026-01-31T12:00:00Z.",
        ),
        Some(_) if filter.cursor.is_some() => ToolError::invalid_argument(UNKNOWN_CURSOR),
        _ => failure.into(),
    }
}

impl ListExecutions {
    fn filter(self) -> Result<ExecutionFilter, ToolError> {
        let default_limit = match self.group {
            true => GROUPED_LIMIT,
            false => DEFAULT_LIMIT,
        };
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
            limit: self.limit.map_or(default_limit, Bounded::get),
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
