//! The start of a run: the repository, the model, the tags, and the wait until the agent server runs it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use upstream::poll::Backoff;

use super::{Runner, lock};
use crate::api::{
    AgentServer, ApiFailure, ApiResult, Conversation, Execution, RunError, TaskId, event_kind,
};
use crate::git::{gaps, printed_id, reason};
use crate::tags::{ConversationTags, StopReason};

/// The reason for the agent whose action no user has allowed.
const NOT_ALLOWED: &str = "This was not allowed and not done. Do it again if it is still needed.";
/// The time in which the agent server records the start of a run.
const START_TIME: Duration = Duration::from_secs(10);
const START_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// The intervals at which a task is looked at that waits for its repository, and the time for that. The script that
/// fetches it ends after a quarter of an hour, and a snapshot may follow.
const BEGIN_BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(2));
const BEGIN_TIME: Duration = Duration::from_secs(20 * 60);
/// The time in which such a task waits for a slot.
const FULL_TIME: Duration = Duration::from_secs(60);
const MAX_ITERATIONS_REACHED: &str = "MaxIterationsReached";

/// Whether a task that was to begin has begun, or cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Yes,
    /// Its repository is being fetched, or its prompt is being sent.
    NotYet,
}

impl Runner {
    /// Runs the agent of a task whose state was `before`. The caller holds its lock and a slot.
    pub(crate) async fn run(
        &self,
        server: &AgentServer,
        id: TaskId,
        tags: &mut ConversationTags,
        before: Execution,
    ) -> ApiResult<()> {
        // Until the agent server records the start, the state is that of the last run.
        let last = server.last_time(id, event_kind::STATE).await?;
        // Tags first, because they cannot be set during a step.
        tags.begin_run();
        server.set_tags(id, tags.as_tags()).await?;
        self.watch(id);
        let run = match refuse_leftovers(server, id, NOT_ALLOWED).await {
            // It does not stand still, because another client runs it.
            Ok(false) => return Ok(()),
            Ok(true) => server.run(id).await,
            Err(failure) => Err(failure),
        };
        let failure = match run {
            // Another client has begun to run it, whose tags stay.
            Err(failure) if failure.is_conflict() => return Err(failure),
            Err(failure) if !failure.is_ambiguous() => failure,
            run => {
                let begun = wait_for_start(server, id, before, last.as_deref(), START_TIME);
                let begun = begun.await;
                match run {
                    Err(failure) if !begun => failure,
                    _ => return Ok(()),
                }
            }
        };
        tags.end_run();
        server.set_tags(id, tags.as_tags()).await?;
        Err(failure)
    }

    /// Runs a task that was created and has not run, or that goes on after the first limit of its steps. The caller
    /// holds its lock.
    ///
    /// # Errors
    /// All slots are taken, or the agent server does not answer.
    pub(crate) async fn begin(&self, server: &AgentServer, id: TaskId) -> ApiResult<Begun> {
        let task = server.conversation(id).await?;
        let mut tags = ConversationTags::from_task(&task);
        let before = task.execution_status;
        let may_begin = match before {
            Execution::Idle => {
                matches!(tags.stop_reason(), None | Some(StopReason::NoSlot))
                    && !server.has_begun_since(id, None).await?
            }
            Execution::Error => has_steps_left(server, &task, &tags).await?,
            _ => false,
        };
        if !may_begin {
            return Ok(Begun::Yes);
        }
        if server.count_messages(id, "user").await? == 0 {
            return Ok(Begun::NotYet);
        }
        // The reason, and what git says about it.
        let mut refused: Option<(StopReason, String)> = None;
        if let Some(fetch) = tags.fetch() {
            match server.finished_script(fetch).await? {
                None => return Ok(Begun::NotYet),
                Some(end) if end.exit_code == Some(0) => {
                    tags.set_fetch(None);
                    tags.set_base(printed_id(end.text()).as_deref());
                    tags.set_gaps(gaps(end.text()).as_deref());
                    server.set_tags(id, tags.as_tags()).await?;
                }
                Some(end) => {
                    let said = match end.exit_code {
                        Some(code) if code >= 0 => reason(end.error()),
                        _ => "it took too long".to_owned(),
                    };
                    refused = Some((StopReason::NoRepository, said));
                }
            }
        }
        if let Some(model) = tags.model().filter(|_| refused.is_none()) {
            match use_model(server, id, model, tags.has_run()).await {
                Err(failure) if !failure.is_transient() => {
                    tracing::warn!(task = %id, ?failure, "cannot set the model");
                    refused = Some((StopReason::NoModel, String::new()));
                }
                set => set?,
            }
        }
        if let Some((reason, said)) = refused {
            tags.mark_stopped(reason);
            tags.set_stop_text(&said);
            server.set_tags(id, tags.as_tags()).await?;
            return Ok(Begun::Yes);
        }
        let _slot = self.take_slot().await?;
        match self.run(server, id, &mut tags, before).await {
            Err(failure) if !failure.is_conflict() => Err(failure),
            _ => Ok(Begun::Yes),
        }
    }

    /// Runs the task in the background as soon as it can begin.
    pub(crate) fn begin_later(self: &Arc<Self>, id: TaskId) {
        if !lock(&self.beginning).insert(id) {
            return;
        }
        let runner = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(failure) = runner.begin_in_time(id).await {
                tracing::warn!(task = %id, ?failure, "cannot start the task");
            }
            lock(&runner.beginning).remove(&id);
        });
    }

    async fn begin_in_time(&self, id: TaskId) -> ApiResult<()> {
        let server = self.servers.for_task(id).await?;
        let (began, mut full_since) = (Instant::now(), None);
        let mut delays = BEGIN_BACKOFF.delays();
        while began.elapsed() < BEGIN_TIME {
            let lock = self.locks.lock(id).await;
            let begun = self.begin(&server, id).await;
            drop(lock);
            match begun {
                Ok(Begun::Yes) => return Ok(()),
                Ok(Begun::NotYet) => {}
                Err(failure) if failure.is_full() => {
                    let since = *full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > FULL_TIME {
                        return self.tag_stopped(&server, id, StopReason::NoSlot).await;
                    }
                }
                Err(failure) if failure.is_transient() => {}
                Err(failure) => return Err(failure),
            }
            delays.sleep().await;
        }
        Err(ApiFailure::NoAnswer)
    }
}

/// Returns true if the agent server has ended a run at its first limit of steps, which has been raised since then.
pub(crate) async fn has_steps_left(
    server: &AgentServer,
    task: &Conversation,
    tags: &ConversationTags,
) -> ApiResult<bool> {
    let Some(steps) = tags.steps() else {
        return Ok(false);
    };
    if task.execution_status != Execution::Error || tags.stop_reason().is_some() {
        return Ok(false);
    }
    let error: Option<RunError> = server.last_event(task.id, event_kind::RUN_ERROR).await?;
    if error.is_none_or(|error| error.code != MAX_ITERATIONS_REACHED)
        || tags.cost().is_some_and(|max| task.stats.cost() >= max)
        || ConversationTags::from_task(task).seconds_left() == Some(0)
    {
        return Ok(false);
    }
    // The count may be that of a run that has begun since the task was read.
    Ok(server.count_actions(task.id).await? < steps
        || server.conversation(task.id).await?.updated_at != task.updated_at)
}

/// Refuses the actions of a stopped task that have no result: no user has allowed them, or its run was cut off, and the
/// next run would take them. Returns false if the task does not stand still, so that it must not be run.
pub(crate) async fn refuse_leftovers(
    server: &AgentServer,
    id: TaskId,
    reason: &str,
) -> ApiResult<bool> {
    if server.pending_actions(id).await?.is_empty() {
        return Ok(true);
    }
    // Those of an agent at work are being taken, and those of one that asks are answered by its user.
    if !is_stopped(server, id).await? {
        return Ok(false);
    }
    tracing::info!(task = %id, "actions that nobody has allowed are refused");
    server.respond(id, false, reason).await?;
    Ok(server.pending_actions(id).await?.is_empty() && is_stopped(server, id).await?)
}

async fn is_stopped(server: &AgentServer, id: TaskId) -> ApiResult<bool> {
    let execution = server.conversation(id).await?.execution_status;
    Ok(execution.is_stopped())
}

/// Switches a prompted task to its model; the agent server does not count the usage of one that is set before
/// the prompt. A task that has run has its model, so it goes on if the profile of the model is gone.
pub(crate) async fn use_model(
    server: &AgentServer,
    id: TaskId,
    model: &str,
    has_run: bool,
) -> ApiResult<()> {
    match server.use_model(id, model).await {
        Err(failure) if has_run && !failure.is_transient() => {
            tracing::warn!(task = %id, ?failure, "cannot set the model again");
            Ok(())
        }
        set => set,
    }
}

/// Waits until the agent server has recorded the start of a task that was told to run. Its state was `before`, and the
/// last change of it was at `last`. Returns false if there is no start in this time.
pub(crate) async fn wait_for_start(
    server: &AgentServer,
    id: TaskId,
    before: Execution,
    last: Option<&str>,
    time: Duration,
) -> bool {
    let (began, mut delays) = (Instant::now(), START_BACKOFF.delays());
    loop {
        let now = server
            .conversation(id)
            .await
            .map(|task| task.execution_status);
        // A message makes a task idle.
        let has_left = now.is_ok_and(|now| now != before && now != Execution::Idle);
        if has_left || server.has_begun_since(id, last).await.unwrap_or(false) {
            return true;
        }
        let delay = delays.next_delay();
        if began.elapsed() + delay > time {
            return false;
        }
        sleep(delay).await;
    }
}
