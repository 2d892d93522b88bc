//! Watching one run: finding its execution, and following it to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_core::tool::ToolError;
use tokio::time::{Instant, sleep};
use upstream::http::HttpFailure;

use super::deadline::{Deadline, FIRST_POLL_INTERVAL, SHOW_UP_TIMEOUT};
use super::outcome::Run;
use super::scan_by_id::Scanned;
use super::search::{ENDED_FIRST, RUNNING_FIRST, Search};
use crate::api::Execution;
use crate::builtin_mcp::McpStart;
use crate::id::Id;
use crate::pending::Pending;
use crate::production_url::UrlAnswer;
use crate::service::N8n;

/// Most runs end in less; only then is it worth looking for the execution.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// A started run, by what its execution is found by.
pub(super) enum ExecutionRef {
    /// By our request id, which the trigger keeps; a production URL has been called.
    Replying {
        reply: Pending<UrlAnswer>,
        /// The reply tells how the run ended.
        replies_late: bool,
    },
    /// By the id that n8n's MCP server names.
    Named(McpStart),
}

/// One run under way.
pub(super) struct ExecutionWatch<'a> {
    pub(super) n8n: &'a N8n,
    pub(super) search: Arc<Search>,
    pub(super) deadline: Deadline<'a>,
    /// How long after the reply the execution may take to show up.
    show_up_timeout: Duration,
}

impl<'a> ExecutionWatch<'a> {
    /// Where n8n is told to `keep_nothing` of the runs, one look after the end will do.
    pub(super) fn new(
        n8n: &'a N8n,
        search: Arc<Search>,
        deadline: Deadline<'a>,
        keeps_nothing: bool,
    ) -> Self {
        Self {
            n8n,
            search,
            deadline,
            show_up_timeout: if keeps_nothing {
                Duration::ZERO
            } else {
                SHOW_UP_TIMEOUT
            },
        }
    }

    /// Finds the execution and waits for its end, within the deadline.
    ///
    /// # Errors
    /// When nothing was started, or nobody can tell.
    pub(super) async fn follow_to_end(&self, run: ExecutionRef) -> Result<Run, ToolError> {
        match run {
            ExecutionRef::Replying {
                reply,
                replies_late,
            } => self.follow_replying(reply, replies_late).await,
            ExecutionRef::Named(start) => self.follow_named(start).await,
        }
    }

    async fn follow_replying(
        &self,
        mut reply: Pending<UrlAnswer>,
        replies_late: bool,
    ) -> Result<Run, ToolError> {
        let soon = self.deadline.left().min(REPLY_TIMEOUT);
        reply.wait_or(sleep(soon)).await?;
        let found = self.find(&mut reply).await?;
        if let Some(execution) = found {
            if let Some(run) = self.follow(execution).await {
                return Ok(run);
            }
            // Gone: n8n does not keep it. What it replied is all that there will ever be.
            reply.wait_or(sleep(self.deadline.left())).await?;
        } else {
            let refusal = match reply.answer() {
                Some(UrlAnswer::Lost) => Some(ToolError::unavailable(
                    "The connection ended before n8n replied, and n8n shows no execution of this \
                     run. It may have run or not; it was not repeated. Look into n8n before \
                     running it again.",
                )),
                Some(UrlAnswer::Reply(reply)) => reply.refusal(),
                Some(UrlAnswer::Late) | None => None,
            };
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
        }
        let reply = match reply.answer() {
            Some(UrlAnswer::Reply(reply)) if replies_late => Some(reply),
            _ => None,
        };
        Ok(Run::unsaved(self.search.execution.get(), reply))
    }

    async fn follow_named(&self, start: McpStart) -> Result<Run, ToolError> {
        if start.is_anonymous {
            self.search.is_anonymous.store(true, Ordering::Relaxed);
        }
        let Some(id) = self.find_named(start).await? else {
            return Ok(Run::running(None).noting(
                "n8n's MCP server did not name the execution. If the workflow was started, it is \
                 among the newest ones; look into n8n before running it again.",
            ));
        };
        self.search.remember(&id);
        let run = match self.n8n.api.execution(&id, true).await {
            Ok(Some(execution)) => self.follow(execution).await,
            Ok(None) => None,
            Err(failure) => Some(unfollowed(&id, failure)),
        };
        let gone = || Run::running(Some(&id)).noting("n8n does not keep this execution.");
        Ok(run.unwrap_or_else(gone))
    }

    /// Looks for the execution until it is there, or it should have been for a while.
    async fn find(&self, reply: &mut Pending<UrlAnswer>) -> Result<Option<Execution>, ToolError> {
        let mut give_up = Instant::now() + self.show_up_timeout;
        let mut pause = FIRST_POLL_INTERVAL;
        loop {
            let replied = reply.answer().is_some();
            if !replied {
                give_up = Instant::now().max(self.deadline.bound()) + self.show_up_timeout;
            }
            let lists = if replied { ENDED_FIRST } else { RUNNING_FIRST };
            match self.search.find(lists).await {
                Ok(Some(execution)) => return Ok(Some(execution)),
                Ok(None) if Instant::now() >= give_up => {
                    match self.search.scan(self.deadline.called_at).await {
                        Scanned::Found(execution) => return Ok(Some(*execution)),
                        Scanned::Unclear if !self.deadline.left().is_zero() => {}
                        Scanned::Unclear | Scanned::Nothing => return Ok(None),
                    }
                }
                Err(failure) if Instant::now() >= give_up => return Err(lost(failure)),
                Ok(None) | Err(_) => {}
            }
            self.progress();
            reply.wait_or(sleep(pause)).await?;
            pause = self.deadline.longer(pause);
            if !replied {
                // From then on there is more time.
                self.deadline.is_over().await;
            }
        }
    }

    /// Waits for n8n's answer. Where that comes at the end of the run only, looks for the execution
    /// in the meantime: the trigger keeps our id, if it keeps anything.
    async fn find_named(&self, mut start: McpStart) -> Result<Option<Id>, ToolError> {
        let mut pause = FIRST_POLL_INTERVAL;
        loop {
            start.pending.wait_or(sleep(pause)).await?;
            match start.pending.answer() {
                Some(Some(id)) => return Ok(Some(id.clone())),
                // Nobody knows whether it has begun: only what holds our id is ours.
                Some(None) => return Ok(self.find_once().await),
                None => {}
            }
            pause = self.deadline.longer(pause);
            self.progress();
            if start.answers_late {
                let mut found = self.find_once().await;
                if found.is_none() && self.deadline.is_over().await {
                    // It has certainly begun, if it has at all.
                    found = self.find_once().await;
                    if found.is_none() {
                        return Ok(self.search.only_new().await);
                    }
                }
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
    }

    async fn find_once(&self) -> Option<Id> {
        let found = self.search.find(RUNNING_FIRST).await.ok().flatten();
        found.map(|execution| execution.id)
    }

    /// Waits for the end of the execution, within the bound; `None` once n8n has dropped it.
    ///
    /// A poll that fails is not the end of the run: the next may succeed.
    async fn follow(&self, mut execution: Execution) -> Option<Run> {
        let mut pause = FIRST_POLL_INTERVAL;
        let mut trouble = None;
        while !execution.status.has_ended() {
            // Only a task waits for a human.
            let is_over = if execution.waits_for_somebody() {
                !self.deadline.goes_on().await || self.deadline.left().is_zero()
            } else {
                self.deadline.is_over().await
            };
            if is_over {
                return Some(match trouble {
                    Some(failure) => unfollowed(&execution.id, failure),
                    None => Run::from_execution(execution),
                });
            }
            self.progress();
            sleep(pause.min(self.deadline.left())).await;
            pause = self.deadline.longer(pause);
            match self.n8n.api.execution(&execution.id, false).await {
                Ok(Some(now)) => (execution, trouble) = (now, None),
                Ok(None) => return None,
                Err(failure) => trouble = Some(failure),
            }
        }
        if execution.data.is_none() {
            execution = match self.n8n.api.execution(&execution.id, true).await {
                Ok(Some(now)) => now,
                Ok(None) => return None,
                Err(failure) => {
                    let text = ToolError::from(failure).to_string();
                    let run = Run::from_execution(execution);
                    return Some(run.noting(format!("Its output is missing: {text}")));
                }
            };
        }
        Some(Run::from_execution(execution))
    }

    fn progress(&self) {
        self.deadline.progress(&match self.search.execution.get() {
            Some(id) => format!("Execution {id} is running"),
            None => format!("Workflow {} was started", self.search.workflow),
        });
    }
}

fn unfollowed(id: &Id, failure: HttpFailure) -> Run {
    let text = ToolError::from(failure).to_string();
    Run::running(Some(id)).noting(format!("It was running when last seen. {text}"))
}

fn lost(failure: HttpFailure) -> ToolError {
    let cause = ToolError::from(failure);
    ToolError::unavailable(format!(
        "The workflow was started, but its execution cannot be followed. {cause} Do not run it \
         again before looking into n8n."
    ))
    .caused_by(cause)
}
