//! Follows one run: finds its execution, and waits for its end until the deadline, which is that of the call or
//! that of a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_core::tool::{Call, ToolError};
use n8n_workflow::{Execution, Id, Status};
use tokio::time::{Instant, sleep, timeout_at};
use upstream::http::HttpFailure;

use super::find::{ENDED_FIRST, RUNNING_FIRST, Search};
use super::plan::Start;
use crate::outcome::{Kept, Run};
use crate::production_url::{Pending, UrlOutcome, UrlReply};
use crate::service::N8n;
use crate::start_method::StartMethod;

/// Less than the hour for which tasks are kept: a task that expires is cancelled, and its execution
/// with it.
const TASK_TIMEOUT: Duration = Duration::from_secs(55 * 60);
/// The delay after the reply, or after the deadline, within which n8n lists the execution.
const SHOW_UP_TIMEOUT: Duration = Duration::from_secs(3);
/// The same if n8n has replied with success before the run: it has yet to write the execution, and a busy one is late.
const LATE_SHOW_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// The least time, counted from the call, in which the execution is searched for, however short the caller waits: without
/// its id nobody can follow the run, and a busy n8n lists it after seconds.
const MIN_SEARCH_PERIOD: Duration = Duration::from_secs(15);
pub(super) const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longer, since no connection waits for the end of a task.
const MAX_TASK_POLL_INTERVAL: Duration = Duration::from_secs(3);
/// The wait for a reply before the first search for the execution; most runs are shorter.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Searches in a row that fail before a run is given up: n8n may be busy, or begin again.
const MAX_FAILURES: u32 = 3;
/// The least time for one search: n8n answers in milliseconds, a busy one in a second.
const MIN_SEARCH_TIMEOUT: Duration = Duration::from_secs(2);

/// A run that was started through a production URL: its execution holds our request id.
struct UrlRun {
    reply: Pending<UrlOutcome>,
    /// The reply comes at the end of the run.
    replies_at_end: bool,
    is_webhook: bool,
    kept: Kept,
}

impl UrlRun {
    fn reply(&self) -> Option<&UrlReply> {
        match self.reply.answer() {
            Some(UrlOutcome::Reply(reply)) => Some(reply),
            _ => None,
        }
    }

    /// The reply, if it comes at the end of the run.
    fn reply_at_end(&self) -> Option<&UrlReply> {
        self.reply().filter(|_| self.replies_at_end)
    }

    fn show_up_timeout(&self) -> Duration {
        let accepts = |reply: &&UrlReply| reply.status.is_success() && !reply.is_page();
        match self.reply().filter(accepts) {
            Some(_) if !self.replies_at_end => LATE_SHOW_UP_TIMEOUT,
            _ => SHOW_UP_TIMEOUT,
        }
    }
}

pub(super) struct ExecutionWatch<'a> {
    pub(super) n8n: &'a N8n,
    pub(super) search: Arc<Search>,
    pub(super) deadline: Deadline<'a>,
}

impl ExecutionWatch<'_> {
    /// Sends the one request that starts the run, finds the execution and waits for its end, until the deadline.
    pub(super) async fn run(
        &self,
        way: StartMethod,
        start: Start,
        kept: Kept,
    ) -> Result<Run, ToolError> {
        let (n8n, search) = (self.n8n, &self.search);
        let within = self.deadline.start_timeout();
        match start {
            Start::Url(request) => {
                let run = UrlRun {
                    replies_at_end: request.replies_at_end,
                    is_webhook: way == StartMethod::Webhook,
                    kept,
                    reply: n8n
                        .urls
                        .send(request, &search.workflow, &search.request_id, within)?,
                };
                self.follow_url_run(run).await
            }
            Start::Mcp(arguments) => {
                let (workflow, known) = (&search.workflow, &search.execution);
                let start = n8n.mcp.start(way, arguments, workflow, within, known);
                // n8n answers at the end of the run, so the execution may be found earlier by other means.
                let answers_at_end = way == StartMethod::McpTest;
                self.follow_mcp_run(start.await?, answers_at_end).await
            }
        }
    }

    async fn follow_url_run(&self, mut run: UrlRun) -> Result<Run, ToolError> {
        let reply_timeout = self.deadline.remaining().min(REPLY_TIMEOUT);
        run.reply.wait_at_most(reply_timeout).await?;
        let outcome = self.url_outcome(&mut run).await?;
        Ok(match run.reply() {
            Some(reply) if run.is_webhook => outcome.with_response(reply, run.replies_at_end),
            _ => outcome,
        })
    }

    async fn url_outcome(&self, run: &mut UrlRun) -> Result<Run, ToolError> {
        if let Some(execution) = self.find(run).await? {
            let has_ended = execution.status.has_ended();
            if let Some(outcome) = self.follow(execution).await {
                // The reply comes a moment after the execution has ended.
                let moment = match run.is_webhook && run.replies_at_end {
                    true if has_ended || outcome.has_ended() => SHOW_UP_TIMEOUT,
                    _ => Duration::ZERO,
                };
                run.reply.wait_at_most(moment).await?;
                return Ok(outcome);
            }
            // n8n does not save it, so the reply is the only result.
            run.reply.wait_at_most(self.deadline.remaining()).await?;
        } else {
            let doubt = match run.reply.answer() {
                Some(UrlOutcome::Lost) => Some(ToolError::unavailable(
                    "The connection ended before n8n replied, and n8n shows no execution of this \
                     run. It may have run or not; it was not repeated. Check the executions in \
                     n8n before you run it again.",
                )),
                Some(UrlOutcome::Reply(reply)) => reply.doubt(),
                Some(UrlOutcome::Late) | None => None,
            };
            if let Some(doubt) = doubt {
                return Err(doubt);
            }
        }
        let id = self.search.execution.get();
        Ok(Run::from_reply(id, run.reply_at_end(), run.kept))
    }

    /// Follows a run of which n8n's MCP server returns the execution's id, at once or at its end.
    async fn follow_mcp_run(
        &self,
        start: Pending<Option<Id>>,
        answers_at_end: bool,
    ) -> Result<Run, ToolError> {
        let Some(id) = self.wait_for_id(start, answers_at_end).await? else {
            return Ok(Run::running(None).with_note(
                "n8n's MCP server did not name the execution. If the workflow was started, it is \
                 among the newest ones; check the executions in n8n before you run it again.",
            ));
        };
        self.search.store_id(&id);
        let run = match self.n8n.api.execution(&id, true).await {
            Ok(Some(execution)) => self.follow(execution).await,
            Ok(None) => None,
            Err(failure) => Some(last_seen_running(&id, failure)),
        };
        Ok(run.unwrap_or_else(|| Run::gone(&id)))
    }

    /// Polls for the execution until it is found, or n8n should have listed it.
    async fn find(&self, run: &mut UrlRun) -> Result<Option<Execution>, ToolError> {
        let mut give_up_at = Instant::now() + run.show_up_timeout();
        let (mut interval, mut failures) = (MIN_POLL_INTERVAL, 0);
        loop {
            let replied = run.reply.answer().is_some();
            if !replied {
                give_up_at = self
                    .deadline
                    .search_end()
                    .max(Instant::now() + SHOW_UP_TIMEOUT);
            }
            let reply = run.reply_at_end();
            let succeeded = reply.map(|reply| !reply.status.is_server_error());
            let is_kept = run.reply().is_none() || run.kept.after_reply(succeeded);
            let lists: &[_] = match (replied, is_kept) {
                (false, _) => &RUNNING_FIRST,
                (true, true) => &ENDED_FIRST,
                // A run that waits has replied, too.
                (true, false) => &[None],
            };
            let is_over = !is_kept || Instant::now() >= give_up_at;
            let found = timeout_at(
                give_up_at.max(Instant::now() + MIN_SEARCH_TIMEOUT),
                self.search.find(lists),
            );
            let found = found.await;
            failures = if matches!(found, Ok(Err(_))) {
                failures + 1
            } else {
                0
            };
            match found {
                Ok(Ok(Some(execution))) => return Ok(Some(execution)),
                Ok(Ok(None)) if is_over => {
                    let is_late = is_kept && !self.deadline.remaining().is_zero();
                    if !is_late || !self.search.may_come().await {
                        return Ok(None);
                    }
                }
                Ok(Err(failure)) if is_over && failures >= MAX_FAILURES => {
                    return Err(lost(failure));
                }
                Err(_) if is_over && self.deadline.remaining().is_zero() => return Ok(None),
                _ => {}
            }
            if let Some(message) = run.reply().and_then(UrlReply::failure)
                && let Some(execution) = self.search.find_refused(&message).await
            {
                return Ok(Some(execution));
            }
            self.report_progress();
            run.reply.wait_or(sleep(interval)).await?;
            interval = self.deadline.next_interval(interval);
            if !replied {
                // Becomes a task if the time is over: then there is more.
                self.deadline.is_over().await;
            }
        }
    }

    /// Waits for n8n's answer. If that comes only at the end of the run, polls for the execution in
    /// the meantime: its trigger may save our request id.
    async fn wait_for_id(
        &self,
        mut start: Pending<Option<Id>>,
        answers_at_end: bool,
    ) -> Result<Option<Id>, ToolError> {
        let mut interval = MIN_POLL_INTERVAL;
        loop {
            start.wait_or(sleep(interval)).await?;
            match start.answer() {
                Some(Some(id)) => return Ok(Some(id.clone())),
                // It may not have started: only an execution with our request id is ours.
                Some(None) => return Ok(self.find_running().await),
                None => {}
            }
            interval = self.deadline.next_interval(interval);
            self.report_progress();
            if answers_at_end {
                let found = self.find_running().await;
                // By then it has started, if it ever does.
                if found.is_some()
                    || self.deadline.is_over().await && Instant::now() >= self.deadline.search_end()
                {
                    return Ok(found);
                }
            }
        }
    }

    async fn find_running(&self) -> Option<Id> {
        let found = self.search.find(&RUNNING_FIRST).await.ok().flatten();
        found.map(|execution| execution.id)
    }

    /// Waits for the end of the execution, until the deadline; `None` once n8n has deleted it.
    ///
    /// A failed poll does not end the wait: the next may succeed.
    pub(super) async fn follow(&self, mut execution: Execution) -> Option<Run> {
        let mut interval = MIN_POLL_INTERVAL;
        let mut failed_poll = None;
        while !execution.status.has_ended() {
            // Only a task waits for a person.
            let is_listed = execution.status == Status::Running;
            let is_over = if execution.waits_for_person() {
                !self.deadline.become_task().await || self.deadline.remaining().is_zero()
            } else {
                self.deadline.is_over().await
            };
            if is_over {
                return Some(match failed_poll {
                    Some(failure) => last_seen_running(&execution.id, failure),
                    None => Run::from_execution(execution),
                });
            }
            self.report_progress();
            sleep(interval.min(self.deadline.remaining())).await;
            interval = self.deadline.next_interval(interval);
            // One list serves all calls that follow runs of this workflow.
            if is_listed && self.search.is_running(&execution.id).await {
                failed_poll = None;
                continue;
            }
            match self.n8n.api.execution(&execution.id, true).await {
                Ok(Some(now)) => (execution, failed_poll) = (now, None),
                Ok(None) => return None,
                Err(failure) => failed_poll = Some(failure),
            }
        }
        if execution.data.is_none() {
            execution = match self.n8n.api.execution(&execution.id, true).await {
                Ok(Some(now)) => now,
                Ok(None) => return None,
                Err(failure) => {
                    let note = format!("Its output is missing: {}", ToolError::from(failure));
                    return Some(Run::from_execution(execution).with_note(note));
                }
            };
        }
        Some(Run::from_execution(execution))
    }

    fn report_progress(&self) {
        self.deadline.progress(&match self.search.execution.get() {
            Some(id) => format!("Execution {id} is running"),
            None => format!("Workflow {} was started", self.search.workflow),
        });
    }
}

fn last_seen_running(id: &Id, failure: HttpFailure) -> Run {
    let note = format!(
        "It was running when last seen. {}",
        ToolError::from(failure)
    );
    Run::running(Some(id)).with_note(note)
}

fn lost(cause: ToolError) -> ToolError {
    ToolError::unavailable(format!(
        "The workflow was started, but its execution cannot be followed. {cause} Check the \
         executions in n8n before you run it again."
    ))
    .caused_by(cause)
}

/// The deadline of a run, counted from its call.
pub(super) struct Deadline<'a> {
    call: &'a Call,
    started: Instant,
    wait: Duration,
    /// The call has become a task: then the limit is [`TASK_TIMEOUT`].
    is_task: AtomicBool,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(call: &'a Call, wait: Duration) -> Self {
        Self {
            call,
            started: Instant::now(),
            wait,
            is_task: AtomicBool::new(false),
        }
    }

    fn is_task(&self) -> bool {
        self.is_task.load(Ordering::Relaxed)
    }

    fn limit(&self) -> Duration {
        if self.is_task() {
            TASK_TIMEOUT
        } else {
            self.wait
        }
    }

    /// The time until which the execution is searched for.
    fn search_end(&self) -> Instant {
        self.started + MIN_SEARCH_PERIOD.max(self.limit() + SHOW_UP_TIMEOUT)
    }

    pub(super) fn remaining(&self) -> Duration {
        self.limit().saturating_sub(self.started.elapsed())
    }

    /// The timeout of a request that n8n answers at the end of the run.
    pub(super) fn start_timeout(&self) -> Duration {
        match self.call.supports_tasks() {
            true => TASK_TIMEOUT + SHOW_UP_TIMEOUT,
            false => self.search_end().saturating_duration_since(Instant::now()),
        }
    }

    /// True once the time is over and the call cannot become a task, which has more.
    pub(super) async fn is_over(&self) -> bool {
        self.remaining().is_zero() && (!self.become_task().await || self.remaining().is_zero())
    }

    /// Turns the call into a task if the client supports tasks; returns true if it is one now.
    pub(super) async fn become_task(&self) -> bool {
        let is_task = self.is_task() || self.call.continue_as_task().await;
        self.is_task.store(is_task, Ordering::Relaxed);
        is_task
    }

    /// The interval after this one: it grows by half up to a maximum.
    pub(super) fn next_interval(&self, interval: Duration) -> Duration {
        let is_task = self.is_task();
        let max = if is_task {
            MAX_TASK_POLL_INTERVAL
        } else {
            MAX_POLL_INTERVAL
        };
        (interval * 3 / 2).min(max)
    }

    pub(super) fn progress(&self, message: &str) {
        let total = self.limit().as_secs_f64();
        let done = self.started.elapsed().as_secs_f64().min(total);
        self.call.progress(done, Some(total), message);
    }
}
