//! Waiting for tasks: `wait_task`, the wait of calls that start a task, and tasks of the protocol after a restart.

use std::time::Duration;

use futures_util::future::{join_all, select_all, try_join_all};
use mcp_core::tool::{
    Bounded, Call, EarlierTask, Effect, TaskSupport, Tool, ToolError, ToolErrorKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use tokio::time::Instant;
use upstream::text::one_line;

use crate::OpenHands;
use crate::api::{ApiFailure, TaskId, with_more};
use crate::state::TaskStatus;
use crate::task::{ObservedTask, Report, ShortReport, ask_user, observe, send_answer};

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

/// A short report of one of several tasks.
#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct RunSummary {
    /// Absent if it was not started.
    pub(super) task_id: Option<TaskId>,
    pub(super) status: Option<TaskStatus>,
    /// Agent's last message, truncated.
    pub(super) result: Option<String>,
    /// The verify command succeeded.
    verified: Option<bool>,
    verify_exit_code: Option<i32>,
    /// Why it is not done.
    pub(super) error: Option<String>,
}

impl RunSummary {
    pub(super) fn new(ended: Result<Report, ToolError>) -> Self {
        let short = |text: String| one_line(&text, MAX_TEXT_CHARS);
        match ended {
            Ok(report) => Self {
                task_id: Some(report.task_id),
                status: Some(report.status),
                result: report.result.map(short),
                verified: report.verified,
                verify_exit_code: report.verify_exit_code,
                error: report.error.map(short),
            },
            Err(error) => Self {
                error: Some(one_line(error.message(), 2 * MAX_TEXT_CHARS)),
                ..Self::default()
            },
        }
    }
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
                report: Some(one(service, id, wait, (call, call), false).await?),
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
        (1..=MAX_TASKS).contains(&ids.len()).then(|| reference(ids))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        let is_one = !task.reference.contains('-');
        let found = earlier_tasks(service, task, call).await?;
        let found: Vec<_> = found.into_iter().flatten().collect();
        Ok(Self {
            task_id: found.first().copied().filter(|_| is_one),
            task_ids: (!is_one).then_some(found),
            until: None,
            wait_seconds: None,
        })
    }
}

/// Waits for a task of `owner`.
async fn one(
    service: &OpenHands,
    id: TaskId,
    wait: WaitFor,
    (owner, call): (&Call, &Call),
    is_quiet: bool,
) -> Result<Report, ToolError> {
    service.check_owner(id, owner).await?;
    let mut wait = TaskWait::new(service, id, wait, call);
    wait.is_quiet = is_quiet;
    match wait.observe(false).await? {
        // No poll succeeded, so the task may not exist.
        ObservedTask {
            task: None,
            failure: Some(failure),
        } => Report::from_failure(id, failure),
        seen => Ok(wait.report(seen).await),
    }
}

/// Waits for all of the tasks, or until one has ended.
async fn several(
    service: &OpenHands,
    ids: &[TaskId],
    any: bool,
    wait: WaitFor,
    call: &Call,
) -> Vec<RunSummary> {
    let (mut last, mut waiting, now) = (wait, call, Call::default());
    if any {
        let waits = ids
            .iter()
            .map(|id| Box::pin(one(service, *id, wait, (call, call), true)));
        drop(select_all(waits).await);
        // The others are only looked at.
        (last, waiting) = (WaitFor::none(), &now);
    }
    let reports = ids
        .iter()
        .map(|id| one(service, *id, last, (call, waiting), true));
    let summary = |(id, report): (&TaskId, Result<Report, ToolError>)| {
        let mut summary = RunSummary::new(report);
        summary.task_id = Some(*id);
        summary
    };
    ids.iter()
        .zip(join_all(reports).await)
        .map(summary)
        .collect()
}

/// Hosts and our own transports time out after 30 s. A call must be answered by then, or the id of its
/// task is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(28);
/// Less than the hour for which tasks of the protocol are kept: one that expires is cancelled.
const TASK_TIMEOUT: Duration = Duration::from_secs(55 * 60);
/// A wait leaves this much of the timeout of calls for the report, and the answer this part of it.
const REPORT_TIME: Duration = Duration::from_secs(5);
const ANSWER_RESERVE: Duration = Duration::from_secs(3);
/// The default wait leaves some of that time for the report.
const DEFAULT_WAIT_SECONDS: u32 = 20;

/// The shortest and the longest time for which a call waits for a slot.
const MIN_SLOT_WAIT: Duration = Duration::from_secs(2);
const MAX_SLOT_WAIT: Duration = Duration::from_secs(10);

/// The time for which a call waits, in seconds. The timeout of calls bounds it, too.
pub(super) type WaitSeconds = Bounded<0, 600>;

/// The end of a call's wait, and the time by which the call must be answered.
#[derive(Clone, Copy)]
pub(super) struct WaitFor {
    pub(super) until: Instant,
    pub(super) answer_by: Instant,
    duration: Duration,
}

impl WaitFor {
    /// A wait that begins now, at most as long as calls of this server may take.
    pub(super) fn new(seconds: Option<WaitSeconds>, service: &OpenHands) -> Self {
        let seconds = seconds.map_or(DEFAULT_WAIT_SECONDS, Bounded::get);
        let longest = service.call_timeout().saturating_sub(REPORT_TIME);
        Self::from_duration(Duration::from_secs(seconds.into()).min(longest))
    }

    /// No wait, for a call that only starts a task.
    pub(super) fn none() -> Self {
        Self::from_duration(Duration::ZERO)
    }

    fn from_duration(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            until: now + duration,
            answer_by: now + (duration + ANSWER_RESERVE).max(ANSWER_TIMEOUT),
            duration,
        }
    }

    /// The time until which the call waits for a slot, if it begins now.
    pub(super) fn slot_by(self) -> Instant {
        Instant::now() + self.duration.clamp(MIN_SLOT_WAIT, MAX_SLOT_WAIT)
    }
}

/// A call that waits for a task.
pub(super) struct TaskWait<'a> {
    service: &'a OpenHands,
    id: TaskId,
    wait: WaitFor,
    call: &'a Call,
    /// The call has become a task of the protocol, which waits for the end.
    is_task: bool,
    /// Without progress, as one of several tasks: their steps would be mixed up.
    pub(super) is_quiet: bool,
}

impl<'a> TaskWait<'a> {
    pub(super) fn new(service: &'a OpenHands, id: TaskId, wait: WaitFor, call: &'a Call) -> Self {
        Self {
            service,
            id,
            wait,
            call,
            is_task: false,
            is_quiet: false,
        }
    }

    /// Continues as a task of the protocol if the OpenHands task goes on and the client supports that.
    /// Returns true if the wait goes on.
    async fn becomes_task(&mut self, seen: &ObservedTask) -> bool {
        let goes_on = match (&seen.task, &seen.failure) {
            (Some(task), _) => !task.status().is_settled(),
            (None, failure) => failure.as_ref().is_some_and(ApiFailure::is_transient),
        };
        if !goes_on || self.is_task || !self.call.continue_as_task().await {
            return false;
        }
        self.is_task = true;
        self.wait = WaitFor::from_duration(TASK_TIMEOUT);
        true
    }

    /// Waits until the task settles or the wait is over. If the call is cancelled, the task goes on, or is stopped:
    /// unless this server stops, since the task is found after its restart.
    async fn observe(&mut self, stops: bool) -> Result<ObservedTask, ToolError> {
        let quiet = Call::default();
        let progress = if self.is_quiet { &quiet } else { self.call };
        loop {
            let seen = tokio::select! {
                biased;
                () = self.call.cancelled(), if stops => return Err(self.abandoned().await),
                seen = observe(self.service, self.id, self.wait.until, progress) => seen,
            };
            if !self.becomes_task(&seen).await {
                return Ok(seen);
            }
        }
    }

    /// The error of the call, which was cancelled, or ends because this server stops.
    async fn abandoned(&self) -> ToolError {
        let id = self.id;
        if self.call.is_closing() {
            return ToolError::unavailable(format!(
                "The server stops. Task {id} goes on: call wait_task later."
            ));
        }
        self.service.runner.stop_abandoned(id).await;
        let message = format!("The call was cancelled, and so was task {id}.");
        ToolError::new(ToolErrorKind::Cancelled, message)
    }

    /// The error of a question to the user, with the task that asks. One that only ends a round of the call has no reader.
    fn named(&self, error: ToolError) -> ToolError {
        if error.asks_client() {
            return error;
        }
        let more = format!(
            "The task is {}: get_task_status shows what it waits for.",
            self.id
        );
        with_more(error, &more)
    }

    /// The report at the end of the wait.
    pub(super) async fn report(&self, seen: ObservedTask) -> Report {
        let times = (self.wait.until, self.wait.answer_by);
        Report::new(self.service, self.id, seen, times).await
    }

    /// Waits until the task settles or the wait is over, and reports. If it `asks`, the user is asked for each
    /// permission, if the client supports that, and the wait goes on.
    ///
    /// # Errors
    /// The call was cancelled; the task is stopped then. Or the call has to end so that its client can
    /// ask the user.
    pub(super) async fn follow(mut self, asks: bool) -> Result<Report, ToolError> {
        loop {
            let seen = self.observe(true).await?;
            if !asks || seen.task.as_ref().is_none_or(|task| !task.is_asking()) {
                return Ok(self.report(seen).await);
            }
            let servers = &self.service.servers;
            let answer = tokio::select! {
                biased;
                // The next iteration stops the task.
                () = self.call.cancelled() => continue,
                answer = async {
                    ask_user(&servers.for_task(self.id).await?, self.id, None, self.call).await
                } => answer.map_err(|error| self.named(error))?,
            };
            // The user may have taken long, so the wait for the agent starts again.
            self.wait = WaitFor::from_duration(self.wait.duration);
            match answer {
                Some(answer) => {
                    let server = servers.for_task(self.id).await?;
                    let sent = send_answer(self.service, &server, self.id, &answer);
                    match sent.await {
                        // Another client has answered meanwhile.
                        Err(error) if error.kind() == ToolErrorKind::Conflict => {}
                        sent => sent?,
                    }
                }
                None => return Ok(self.report(seen).await),
            }
        }
    }
}

/// Characters of each task's text in the answer; 20 tasks stay under 2,000 tokens.
const MAX_TEXT_CHARS: usize = 160;
/// Tasks of one call.
pub(super) const MAX_TASKS: usize = 20;
/// The part for a new task.
const NEW: &str = "n";

/// The reference for these tasks; `None` for a new one.
pub(super) fn reference(tasks: impl IntoIterator<Item = Option<TaskId>>) -> String {
    let part = |id: Option<TaskId>| id.map_or(NEW.to_owned(), TaskId::simple);
    let parts: Vec<String> = tasks.into_iter().map(part).collect();
    parts.join("-")
}

/// The id of the new task number `at` of a call that is, or may become, a task of the protocol; `None` for
/// other calls.
pub(super) fn new_id(call: &Call, at: usize) -> Option<TaskId> {
    let digits = call.client().task_id.as_deref()?;
    Some(id_of(digits, at))
}

fn id_of(digits: &str, at: usize) -> TaskId {
    TaskId::from_key(&format!("{digits}/{at}"))
}

/// The tasks with this reference; `None` for one that does not exist, or is another principal's.
///
/// # Errors
/// OpenHands does not answer, or there is none of them.
pub(super) async fn earlier_tasks(
    service: &OpenHands,
    task: EarlierTask<'_>,
    call: &Call,
) -> Result<Vec<Option<TaskId>>, ToolError> {
    // Anybody can name a task, and each part costs requests.
    let parts = task.reference.split('-');
    if parts.clone().count() > MAX_TASKS {
        return Err(absent());
    }
    let ids = parts.enumerate().map(|(at, part)| match part {
        NEW => Some(id_of(task.digits, at)),
        id => TaskId::try_from(id.to_owned()).ok(),
    });
    let found = try_join_all(ids.map(async |id| match id {
        Some(id) => Ok(exists(service, id, call).await?.then_some(id)),
        None => Ok::<_, ToolError>(None),
    }));
    let found = found.await?;
    match found.iter().any(Option::is_some) {
        true => Ok(found),
        false => Err(absent()),
    }
}

pub(super) fn absent() -> ToolError {
    ToolError::not_found("The task does not exist.")
}

async fn exists(service: &OpenHands, id: TaskId, call: &Call) -> Result<bool, ToolError> {
    let read = async {
        let server = service.task_server(id, call).await?;
        server.conversation(id).await
    };
    match read.await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_unknown_task() => Ok(false),
        // Its sandbox does not run, or not yet.
        Err(failure) if failure.sandbox_problem().is_some() => Ok(true),
        Err(failure) => Err(failure.into()),
    }
}
