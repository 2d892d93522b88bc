//! Keeping an eye on one run: its bound, its caller, its execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::sync::SetOnce;
use tokio::time::{Instant, sleep};

use super::find::Search;
use super::hooks::Hook;
use super::outcome::Run;
use super::probe::Probed;
use super::stop::Stopper;
use super::{LOOK_FOR, Order, TASK_WAIT};
use crate::N8n;
use crate::api::{Execution, Failure, Listing};
use crate::id::Id;

pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Nobody waits at a connection for the end of a task.
const TASK_PAUSE: Duration = Duration::from_secs(3);

const RUNNING_FIRST: [Listing; 2] = [Listing::Running, Listing::EndedOrWaiting];
const ENDED_FIRST: [Listing; 2] = [Listing::EndedOrWaiting, Listing::Running];

/// One run under way.
pub(super) struct Watch<'a> {
    pub(super) n8n: &'a N8n,
    pub(super) request_id: &'a str,
    pub(super) workflow: Id,
    call: &'a Call,
    begun: Instant,
    /// The same by the clock.
    called: SystemTime,
    wait: Duration,
    /// It goes on as a task: then the bound is [`TASK_WAIT`].
    is_task: AtomicBool,
    /// How long after the reply the execution may take to show up.
    look_for: Duration,
    /// The newest execution of the workflow before this run.
    after: Option<u64>,
    /// See [`Watch::keeps_nothing`].
    is_anonymous: Arc<AtomicBool>,
    /// Known as soon as the execution was found.
    pub(super) execution: Arc<SetOnce<Id>>,
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
            called: SystemTime::now(),
            wait: order.wait,
            is_task: AtomicBool::new(false),
            look_for: LOOK_FOR,
            after: None,
            is_anonymous: Arc::default(),
            execution: Arc::new(SetOnce::new()),
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
        self.bound().saturating_duration_since(Instant::now())
    }

    /// What a request may take that n8n answers at the end of the run.
    pub(super) fn longest(&self) -> Duration {
        let wait = if self.call.knows_tasks() {
            TASK_WAIT
        } else {
            self.left()
        };
        wait + LOOK_FOR
    }

    /// True once the bound is reached, and the call cannot go on as a task, which has a later one.
    pub(super) async fn is_over(&self) -> bool {
        self.left().is_zero() && (!self.goes_on().await || self.left().is_zero())
    }

    /// Goes on as a task, if the caller knows tasks; true if this is one now.
    pub(super) async fn goes_on(&self) -> bool {
        let is_task = self.is_task.load(Ordering::Relaxed) || self.call.go_on_as_task().await;
        self.is_task.store(is_task, Ordering::Relaxed);
        is_task
    }

    fn bound(&self) -> Instant {
        let is_task = self.is_task.load(Ordering::Relaxed);
        self.begun + if is_task { TASK_WAIT } else { self.wait }
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
                give_up = Instant::now().max(self.bound()) + self.look_for;
            }
            let listings = if replied { ENDED_FIRST } else { RUNNING_FIRST };
            match self.search().find(listings).await {
                Ok(Some(execution)) => {
                    self.remember(&execution.id);
                    return Ok(Some(execution));
                }
                Ok(None) if Instant::now() >= give_up => {
                    match self.search().probe(self.called).await {
                        Probed::Found(execution) => {
                            self.remember(&execution.id);
                            return Ok(Some(*execution));
                        }
                        Probed::Unclear if !self.left().is_zero() => {}
                        Probed::Unclear | Probed::Nothing => return Ok(None),
                    }
                }
                Err(failure) if Instant::now() >= give_up => return Err(self.lost(failure)),
                Ok(None) | Err(_) => {}
            }
            self.progress();
            hook.wait_or(sleep(pause)).await?;
            pause = self.longer(pause);
            if !replied {
                // From then on there is more time.
                self.is_over().await;
            }
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

    /// What stops the run once its caller has given up.
    pub(super) fn stopper(&self) -> Stopper {
        Stopper {
            api: Arc::clone(&self.n8n.api),
            workflow: self.workflow.clone(),
            request_id: self.request_id.to_owned(),
            after: self.after,
            execution: Arc::clone(&self.execution),
            is_anonymous: Arc::clone(&self.is_anonymous),
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
        while !execution.status.has_ended() {
            // A task waits for that somebody.
            let is_over = if execution.waits_for_somebody() {
                !self.goes_on().await || self.left().is_zero()
            } else {
                self.is_over().await
            };
            if is_over {
                return Some(match trouble {
                    Some(failure) => self.unfollowed(&execution.id, failure),
                    None => Run::of(execution),
                });
            }
            self.progress();
            sleep(pause.min(self.left())).await;
            pause = self.longer(pause);
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

    pub(super) fn longer(&self, pause: Duration) -> Duration {
        let is_task = self.is_task.load(Ordering::Relaxed);
        (pause * 3 / 2).min(if is_task { TASK_PAUSE } else { LONGEST_PAUSE })
    }

    pub(super) fn progress(&self) {
        let message = match self.execution.get() {
            Some(id) => format!("Execution {id} is running"),
            None => format!("Workflow {} was started", self.workflow),
        };
        let total = self.bound().duration_since(self.begun).as_secs_f64();
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
