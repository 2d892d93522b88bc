//! Resuming a task, with or without a message to its agent.

use std::time::Duration;

use mcp_core::tool::ToolError;
use openhands_api::{AgentServer, ApiFailure, Execution, TaskId};

use super::sandbox;
use crate::OpenHands;
use crate::budget::{BudgetRequest, TaskLimits, TaskUsage};
use crate::callback::CallbackUrl;
use crate::tags::{ConversationTags, WaitsFor};

/// Polls after a task was told to run, and their interval.
const MAX_START_POLLS: u32 = 20;
const START_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The arguments for a task that goes on.
#[derive(Default)]
pub(crate) struct Continuation<'a> {
    pub(crate) message: Option<&'a str>,
    /// The limits that the caller raises.
    pub(crate) raised: BudgetRequest,
    /// Gets the next result.
    pub(crate) callback: Option<CallbackUrl>,
}

/// Sends a message to the agent of a task, if there is one, and runs the agent within the limits of
/// the whole task, of which the caller may raise some. If all slots are taken, the task is queued.
///
/// # Errors
/// The state of the task does not allow it, or it has used up a limit; the error says what to do.
pub(crate) async fn resume(
    service: &OpenHands,
    id: TaskId,
    with: &Continuation<'_>,
) -> Result<(), ToolError> {
    let Continuation {
        message,
        raised,
        callback,
    } = with;
    let (message, scheduler) = (*message, &service.scheduler);
    if callback.is_some() && !service.servers.has_shared_agent().await? {
        return Err(sandbox::no_callback());
    }
    let server = &sandbox::wake(&service.servers, id).await?;
    // The check of the task replaces all of its tags, too.
    let lock = scheduler.starts.lock(id).await;
    let task = server.conversation(id).await?;
    let execution = task.execution_status;
    let refuse = |reason: &str| Err(ToolError::conflict(reason));
    match (execution, message) {
        // Resuming would approve the pending action.
        (Execution::WaitingForConfirmation, _) => {
            return refuse(
                "The agent is waiting for a permission: answer with respond_confirmation first.",
            );
        }
        (Execution::Deleting, _) => return refuse("The task is being deleted."),
        (Execution::Running, _) if callback.is_some() => {
            return refuse(
                "callback_url: the task is at work. Leave it out, or call wait_task first.",
            );
        }
        // The agent reads the message before its next step.
        (Execution::Running, Some(message)) => {
            drop(lock);
            return match server.prompt(id, message, true).await {
                // The message takes effect at the end of the current step.
                Err(failure) if failure.is_timeout() => Ok(()),
                sent => Ok(sent?),
            };
        }
        (Execution::Running, None) => return Ok(()),
        (Execution::Finished, None) => {
            return refuse("The task is finished: tell it what else to do with send_message.");
        }
        _ => {}
    }
    if message.is_none() && server.count_messages(id, "user").await? == 0 {
        return refuse(
            "The start of the task was cut off, so its agent has no task: run it again.",
        );
    }
    let cost = task.stats.cost();
    let mut tags = ConversationTags::from_task(&task);
    if message.is_none() && tags.is_new_copy(execution) {
        return refuse("The copy has no message yet: send it one with send_message.");
    }
    let used = TaskUsage {
        steps: server.count_actions(id).await?,
        seconds_left: tags.seconds_left(),
        cost,
    };
    let old = TaskLimits {
        steps: tags.steps().or(task.max_iterations.map(u64::from)),
        seconds: tags.seconds(),
        cost: tags.cost(),
    };
    let limits = service.max_budget.continue_with(&old, raised, &used)?;
    tags.continue_with(&limits);
    service.ended.record(id, None);
    if let Some(message) = message {
        server.prompt(id, message, false).await?;
    }
    if let Some(model) = tags.model() {
        // After the prompt: otherwise the agent server does not count the usage of a copy.
        server.use_model(id, model).await?;
    }
    if let Some(url) = callback {
        tags.renew_callback(url.as_str());
    }
    let was_waiting = tags.waits_for() == Some(WaitsFor::Slot);
    let runs = scheduler.run_or_wait(server, id, &mut tags).await;
    let runs = runs.map_err(explain_conflict)?;
    if !runs && was_waiting {
        // Otherwise it has written them.
        server.set_tags(id, tags.as_tags()).await?;
    }
    drop(lock);
    if callback.is_some() {
        service.callbacks.expect(id);
    }
    if runs {
        wait_for_start(server, id, execution).await;
    } else {
        scheduler.enqueue(id);
    }
    Ok(())
}

/// Waits briefly until a task that was told to run has left the state `before`.
async fn wait_for_start(server: &AgentServer, id: TaskId, before: Execution) {
    for _ in 0..MAX_START_POLLS {
        let now = server.conversation(id).await;
        if now.is_ok_and(|task| task.execution_status != before) {
            return;
        }
        tokio::time::sleep(START_POLL_INTERVAL).await;
    }
}

/// Explains a conflict: the agent server refuses to run a task because it runs already, although its
/// state says that it does not.
fn explain_conflict(failure: ApiFailure) -> ToolError {
    let is_conflict = failure.is_conflict();
    let error = ToolError::from(failure);
    if !is_conflict {
        return error;
    }
    ToolError::conflict(
        "The task hangs: the agent server does not run it and does not accept a new run. Try \
         again in half a minute; if that does not help, continue in a copy (fork_task), or call \
         delete_task and run it again.",
    )
    .caused_by(error)
}
