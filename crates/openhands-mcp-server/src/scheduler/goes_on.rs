//! Tasks that do not run and are not done: their run has yet to begin, or has to be followed by another one.

use upstream::time;

use super::CUT_OFF_AFTER;
use crate::api::{AgentServer, ApiResult, Conversation, Execution, RunError, event_kind};
use crate::tags::ConversationTags;

const MAX_ITERATIONS_REACHED: &str = "MaxIterationsReached";

/// Whether a stopped task that does not wait goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoesOn {
    /// It has ended, or waits for its caller.
    No,
    /// It was told to run, and the agent server has not recorded that yet, or has since its state was read.
    Starts,
    /// The scheduler has to run it: its start was cut off, by a crash for example, or the agent server has ended a
    /// run at its first limit of steps, which has been raised since then.
    WithHelp,
}

/// Returns what becomes of the task, whose tags are `tags`.
pub(crate) async fn goes_on(
    server: &AgentServer,
    task: &Conversation,
    tags: &ConversationTags,
) -> ApiResult<GoesOn> {
    let was_told = tags.deadline().is_some() || tags.begins_after().is_some();
    // A message makes a finished conversation idle, and to run a finished one does nothing: whatever tags and clocks
    // say, it has ended.
    let is_over = task.execution_status == Execution::Finished;
    if !task.execution_status.is_stopped() || is_over || !was_told {
        return Ok(GoesOn::No);
    }
    let goes_on = by_its_events(server, task, tags).await?;
    // The events are newer than the state: they may be those of a run that has begun since.
    if goes_on == GoesOn::No && server.conversation(task.id).await?.updated_at != task.updated_at {
        return Ok(GoesOn::Starts);
    }
    Ok(goes_on)
}

async fn by_its_events(
    server: &AgentServer,
    task: &Conversation,
    tags: &ConversationTags,
) -> ApiResult<GoesOn> {
    let (execution, after) = (task.execution_status, tags.begins_after());
    if (execution == Execution::Idle || after.is_some())
        && !server.has_begun_since(task.id, after).await?
    {
        let quiet = time::since(&task.updated_at);
        return Ok(match quiet.is_some_and(|quiet| quiet > CUT_OFF_AFTER) {
            true => GoesOn::WithHelp,
            false => GoesOn::Starts,
        });
    }
    let Some(steps) = tags.steps().filter(|_| execution == Execution::Error) else {
        return Ok(GoesOn::No);
    };
    let error: Option<RunError> = server.last_event(task.id, event_kind::RUN_ERROR).await?;
    let has_more = error.is_some_and(|error| error.code == MAX_ITERATIONS_REACHED)
        && tags.cost().is_none_or(|max| task.stats.cost() < max)
        && ConversationTags::from_task(task).seconds_left() != Some(0)
        && server.count_actions(task.id).await? < steps;
    Ok(match has_more {
        true => GoesOn::WithHelp,
        false => GoesOn::No,
    })
}
