//! Keeping an eye on one run: its bound, its caller, its execution.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep};

use super::find::Search;
use super::hooks::Hook;
use super::outcome::Run;
use super::{LOOK_FOR, Order};
use crate::N8n;
use crate::api::{Execution, Failure, Listing};
use crate::id::Id;

pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

const RUNNING_FIRST: [Listing; 2] = [Listing::Running, Listing::EndedOrWaiting];
const ENDED_FIRST: [Listing; 2] = [Listing::EndedOrWaiting, Listing::Running];

/// One run under way.
pub(super) struct Watch<'a> {
    pub(super) n8n: &'a N8n,
    pub(super) request_id: &'a str,
    pub(super) workflow: Id,
    call: &'a Call,
    begun: Instant,
    wait: Duration,
    /// How long after the reply the execution may take to show up.
    look_for: Duration,
    /// The newest execution of the workflow before this run.
    after: Option<u64>,
    /// See [`Watch::keeps_nothing`].
    is_anonymous: AtomicBool,
    /// Known as soon as the execution was found.
    execution: OnceLock<Id>,
}

impl<'a> Watch<'a> {
    /// The bound counts from here.
    pub(super) fn new(n8n: &'a N8n, order: &Order, request_id: &'a str, call: &'a Call) -> Self {
        Self {
            n8n,
            request_id,
            workflow: order.workflow.clone(),
            call,
            begun: Instant::now(),
            wait: order.wait,
            look_for: LOOK_FOR,
            after: None,
            is_anonymous: AtomicBool::new(false),
            execution: OnceLock::new(),
        }
    }

    /// The execution is none of those up to this one.
    pub(super) fn begins_after(&mut self, newest: Option<u64>) {
        self.after = newest;
    }

    /// n8n is told to keep no execution: one look after the end of the run will do.
    pub(super) fn expect_no_execution(&mut self) {
        self.look_for = Duration::ZERO;
    }

    /// What is left until the bound.
    pub(super) fn left(&self) -> Duration {
        (self.begun + self.wait).saturating_duration_since(Instant::now())
    }

    pub(super) fn known(&self) -> Option<Id> {
        self.execution.get().cloned()
    }

    pub(super) fn remember(&self, id: &Id) {
        // Known already: it is the same one.
        let _ = self.execution.set(id.clone());
    }

    /// Looks for the execution until it is there, or it should have been for a while.
    pub(super) async fn find(&self, hook: &mut Hook) -> Result<Option<Execution>, ToolError> {
        let mut give_up = Instant::now() + self.look_for;
        let mut pause = FIRST_PAUSE;
        loop {
            let replied = hook.answer().is_some();
            if !replied {
                give_up = Instant::now().max(self.begun + self.wait) + self.look_for;
            }
            let listings = if replied { ENDED_FIRST } else { RUNNING_FIRST };
            match self.search().find(listings).await {
                Ok(Some(execution)) => {
                    self.remember(&execution.id);
                    return Ok(Some(execution));
                }
                Ok(None) if Instant::now() >= give_up => {
                    let found = self.search().probe().await;
                    if let Some(execution) = &found {
                        self.remember(&execution.id);
                    }
                    return Ok(found);
                }
                Err(failure) if Instant::now() >= give_up => return Err(self.lost(failure)),
                Ok(None) | Err(_) => {}
            }
            self.progress();
            hook.wait_or(sleep(pause)).await?;
            pause = longer(pause);
        }
    }

    /// Looks once.
    pub(super) async fn find_once(&self) -> Option<Execution> {
        let found = self.search().find(RUNNING_FIRST).await;
        found.ok().flatten()
    }

    /// The only execution that has begun since, for triggers that keep nothing of ours.
    pub(super) async fn only_new(&self) -> Option<Id> {
        if !self.is_anonymous.load(Ordering::Relaxed) {
            return None;
        }
        self.search().only_new().await
    }

    fn search(&self) -> Search<'_> {
        Search {
            api: &self.n8n.api,
            workflow: &self.workflow,
            request_id: self.request_id,
            after: self.after,
        }
    }

    /// Looks until it is there.
    pub(super) async fn find_patiently(&self) -> Id {
        loop {
            if let Some(execution) = self.find_once().await {
                return execution.id;
            }
            if let Some(id) = self.only_new().await {
                return id;
            }
            sleep(FIRST_PAUSE).await;
        }
    }

    /// The trigger keeps nothing of ours, and n8n was asked to start it.
    pub(super) fn keeps_nothing(&self) {
        self.is_anonymous.store(true, Ordering::Relaxed);
    }

    /// [Follows](Self::follow) an execution of which only the id is known.
    pub(super) async fn follow_id(&self, id: &Id) -> Option<Run> {
        match self.n8n.api.execution(id, true).await {
            Ok(Some(execution)) => self.follow(execution).await,
            Ok(None) => None,
            Err(failure) => Some(self.unfollowed(id, failure)),
        }
    }

    /// Waits for the end of the execution, within the bound; `None` once n8n has dropped it.
    ///
    /// A poll that fails is not the end of the run: the next may succeed.
    pub(super) async fn follow(&self, mut execution: Execution) -> Option<Run> {
        let mut pause = FIRST_PAUSE;
        let mut trouble = None;
        while !execution.status.has_ended() && !execution.waits_for_somebody() {
            let left = self.left();
            if left.is_zero() {
                return Some(match trouble {
                    Some(failure) => self.unfollowed(&execution.id, failure),
                    None => Run::of(execution),
                });
            }
            self.progress();
            sleep(pause.min(left)).await;
            pause = longer(pause);
            match self.n8n.api.execution(&execution.id, false).await {
                Ok(Some(now)) => (execution, trouble) = (now, None),
                Ok(None) => return None,
                Err(failure) => trouble = Some(failure),
            }
        }
        if execution.data.is_none() && execution.status.has_ended() {
            execution = match self.n8n.api.execution(&execution.id, true).await {
                Ok(Some(now)) => now,
                Ok(None) => return None,
                Err(failure) => {
                    let text = self.n8n.api.explain(failure).to_string();
                    return Some(
                        Run::of(execution).noting(format!("Its output is missing: {text}")),
                    );
                }
            };
        }
        Some(Run::of(execution))
    }

    pub(super) fn progress(&self) {
        let message = match self.execution.get() {
            Some(id) => format!("Execution {id} is running"),
            None => format!("Workflow {} was started", self.workflow),
        };
        let total = self.wait.as_secs_f64();
        self.call.progress(
            self.begun.elapsed().as_secs_f64().min(total),
            Some(total),
            &message,
        );
    }

    fn unfollowed(&self, id: &Id, failure: Failure) -> Run {
        let text = self.n8n.api.explain(failure).to_string();
        Run::running(Some(id)).noting(format!("It was running when last seen. {text}"))
    }

    fn lost(&self, failure: Failure) -> ToolError {
        let cause = self.n8n.api.explain(failure);
        ToolError::new(
            ToolErrorKind::Unavailable,
            format!(
                "The workflow was started, but its execution cannot be followed. {cause} Do not \
                 run it again before looking into n8n."
            ),
        )
        .caused_by(cause)
    }
}

pub(super) fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(LONGEST_PAUSE)
}
