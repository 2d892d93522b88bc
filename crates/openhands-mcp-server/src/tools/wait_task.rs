//! `wait_task`

use futures_util::future::{join_all, select_all};
use mcp_core::tool::{Call, EarlierTask, Effect, TaskSupport, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::earlier::{self, MAX_TASKS};
use super::run_parallel_tasks::RunSummary;
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{ObservedTask, Report, ShortReport};

/// Waits up to wait_seconds until a task ends, asks or stops. Returns as get_task_result; of several
/// tasks a short report of each. Cancelling it stops no task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitTask {
    /// From run_task.
    task_id: Option<TaskId>,
    /// Several instead.
    task_ids: Option<Vec<TaskId>>,
    /// How many of them; default all.
    until: Option<Until>,
    /// Default 20; the call timeout of this server is the limit.
    wait_seconds: Option<WaitSeconds>,
}

/// The tasks for whose end a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Until {
    Any,
    All,
}

/// The report of the only task, or of each of several.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Waited {
    #[serde(flatten)]
    #[schemars(with = "Option<ShortReport>")]
    report: Option<Report>,
    /// Each of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    // Its schema is that of run_parallel_tasks.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    tasks: Vec<RunSummary>,
}

impl Tool for WaitTask {
    const NAME: &'static str = "wait_task";
    const EFFECT: Effect = Effect::ReadOnly;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = OpenHands;
    type Output = Waited;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Waited, ToolError> {
        let wait = WaitFor::new(self.wait_seconds, service);
        match (self.task_id, self.task_ids.as_deref()) {
            (Some(id), None) => Ok(Waited {
                report: Some(one(service, id, wait, call).await?),
                tasks: Vec::new(),
            }),
            (None, Some(ids)) if (1..=MAX_TASKS).contains(&ids.len()) => {
                let any = self.until == Some(Until::Any);
                Ok(Waited {
                    report: None,
                    tasks: several(service, ids, any, wait, call).await,
                })
            }
            _ => Err(ToolError::invalid_argument(format!(
                "Give task_id, or task_ids with 1 to {MAX_TASKS} tasks."
            ))),
        }
    }

    fn task_reference(&self, _: &OpenHands, _: &Call) -> Option<String> {
        let several = self.task_ids.iter().flatten();
        let ids: Vec<_> = self
            .task_id
            .iter()
            .chain(several)
            .copied()
            .map(Some)
            .collect();
        (1..=MAX_TASKS)
            .contains(&ids.len())
            .then(|| earlier::reference(ids))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        let is_one = !task.reference.contains('-');
        let found = earlier::all(service, task, call).await?;
        let found: Vec<_> = found.into_iter().flatten().collect();
        Ok(Self {
            task_id: found.first().copied().filter(|_| is_one),
            task_ids: (!is_one).then_some(found),
            until: None,
            wait_seconds: None,
        })
    }
}

/// Waits for one task.
async fn one(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &Call,
) -> Result<Report, ToolError> {
    service.check_owner(id, call).await?;
    let mut wait = TaskWait::new(service, id, wait, call);
    let seen = wait.observe().await;
    report(service, id, &wait, seen).await
}

/// Waits for all of the tasks, or until one has ended. Without progress: their steps would be mixed up.
async fn several(
    service: &OpenHands,
    ids: &[TaskId],
    any: bool,
    wait: WaitFor,
    call: &Call,
) -> Vec<RunSummary> {
    let follow = async |id: TaskId, wait: WaitFor, waiting: &Call| {
        service.check_owner(id, call).await?;
        let mut wait = TaskWait::new(service, id, wait, waiting);
        let seen = wait.observe_quietly().await;
        report(service, id, &wait, seen).await
    };
    let (mut last, mut waiting, now) = (wait, call, Call::default());
    if any {
        let waits = ids.iter().map(|id| Box::pin(follow(*id, wait, call)));
        drop(select_all(waits).await);
        // The others are only looked at.
        (last, waiting) = (WaitFor::none(), &now);
    }
    let reports = join_all(ids.iter().map(|id| follow(*id, last, waiting))).await;
    let summary = |(id, report): (&TaskId, Result<Report, ToolError>)| {
        let mut summary = RunSummary::new(report);
        summary.task_id = Some(*id);
        summary
    };
    ids.iter().zip(reports).map(summary).collect()
}

async fn report(
    service: &OpenHands,
    id: TaskId,
    wait: &TaskWait<'_>,
    seen: ObservedTask,
) -> Result<Report, ToolError> {
    match seen {
        // No poll succeeded, so the task may not exist.
        ObservedTask {
            task: None,
            failure: Some(failure),
        } => match service.ended.state(id).filter(|_| failure.is_transient()) {
            Some(state) => Ok(Report::from_last_state(id, state)),
            None => Report::from_failure(id, failure),
        },
        seen => Ok(wait.report(seen).await),
    }
}
