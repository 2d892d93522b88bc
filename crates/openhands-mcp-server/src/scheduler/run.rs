//! The start of a run: the model, the tags, and the wait until the agent server runs it.

use std::time::Duration;

use tokio::time::sleep;

use super::{Scheduler, refuse_leftovers};
use crate::api::{AgentServer, ApiResult, Execution, TaskId, event_kind};
use crate::tags::{ConversationTags, WaitsFor};

/// The reason for the agent whose action no user has allowed.
const NOT_ALLOWED: &str = "This was not allowed and not done. Do it again if it is still needed.";
/// Polls after a task was told to run, and their interval.
const MAX_START_POLLS: u32 = 20;
const START_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Scheduler {
    /// Runs the agent if there is a slot, otherwise tags the task as waiting. Returns true if it runs.
    ///
    /// The caller holds the lock of the task, whose state was `before`. Another server may start a waiting task at
    /// the same time, and the agent server has no compare-and-set: of both runs the first counts.
    pub(crate) async fn run_or_wait(
        &self,
        server: &AgentServer,
        id: TaskId,
        tags: &mut ConversationTags,
        before: Execution,
    ) -> ApiResult<bool> {
        let was_waiting = tags.waits_for().is_some();
        if self.take_slot(id).await? {
            // Until the agent server records the start, the state is that of the last run.
            let last = server.last_time(id, event_kind::STATE).await?;
            // Tags first, because they cannot be set during a step.
            tags.begin_run_after(last.as_deref());
            server.set_tags(id, tags.as_tags()).await?;
            // That may have waited for the end of a step.
            let begun = server.has_begun_since(id, last.as_deref());
            if was_waiting && begun.await.unwrap_or(false) {
                return Ok(true);
            }
            let may_run = refuse_leftovers(server, id, NOT_ALLOWED).await;
            if matches!(may_run, Ok(false)) {
                return Ok(true);
            }
            let run = match may_run {
                Ok(_) => server.run(id).await,
                Err(failure) => Err(failure),
            };
            match run {
                Err(failure) if was_waiting && failure.is_conflict() => return Ok(true),
                Ok(()) => {
                    let begun = has_left(server, id, before).await
                        || server
                            .has_begun_since(id, last.as_deref())
                            .await
                            .unwrap_or(false);
                    if begun {
                        self.slots.has_begun(id);
                    }
                    return Ok(true);
                }
                Err(failure) if failure.is_full() => self.slots.give_back(id),
                // It may run. If it does not, a search finds it.
                Err(failure) if was_waiting && failure.is_ambiguous() => return Err(failure),
                Err(failure) => {
                    self.slots.give_back(id);
                    match was_waiting && failure.is_transient() {
                        true => tags.wait_for_slot(),
                        false => tags.end_run(),
                    }
                    server.set_tags(id, tags.as_tags()).await?;
                    return Err(failure);
                }
            }
        }
        if tags.waits_for() != Some(WaitsFor::Slot) {
            tags.wait_for_slot();
            server.set_tags(id, tags.as_tags()).await?;
        }
        Ok(false)
    }
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

/// Waits briefly until a task that was told to run has left the state `before`, so that the next call does not
/// start it again. Returns true if it has left the state.
async fn has_left(server: &AgentServer, id: TaskId, before: Execution) -> bool {
    for _ in 0..MAX_START_POLLS {
        let now = server.conversation(id).await;
        if now.is_ok_and(|task| task.execution_status != before) {
            return true;
        }
        sleep(START_POLL_INTERVAL).await;
    }
    false
}
