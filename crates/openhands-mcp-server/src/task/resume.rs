//! Resuming a task, with or without a message to its agent.

use mcp_core::tool::ToolError;
use tokio::time::Instant;
use upstream::http::Url;

use super::create::{no_callback, wake};
use crate::OpenHands;
use crate::api::tags::{ConversationTags, StopReason, tag};
use crate::api::{AgentServer, ApiFailure, Backend, Execution, TaskId, with_more};
use crate::budget::Limits;
use crate::runner::{refuse_leftovers, until_slot, use_model};

/// The reason for the agent whose action was interrupted before it was allowed or done.
const NOT_DONE: &str =
    "This was not done: the run had ended before. Do it again if it is still needed.";

/// The advice about a message to a running agent whose answer is lost.
const UNKNOWN_IF_READ: &str = "It is not known whether the agent has the message: get_task_events shows it after the \
    present step. Send it again only if it is not there then, or the agent gets it twice.";

/// The arguments for a task that goes on.
pub(crate) struct Continuation<'a> {
    pub(crate) message: Option<&'a str>,
    /// The limits that the caller raises.
    pub(crate) raised: Limits,
    /// Gets the next result.
    pub(crate) callback: Option<Url>,
}

/// Sends a message to the agent of a task, if there is one, and runs the agent within the limits of
/// the whole task, of which the caller may raise some. Waits until `slot_by` for a slot.
///
/// # Errors
/// The state of the task does not allow it, or it has used up a limit; the error says what to do.
pub(crate) async fn resume(
    service: &OpenHands,
    id: TaskId,
    with: &Continuation<'_>,
    slot_by: Instant,
) -> Result<(), ToolError> {
    let Continuation {
        message,
        raised,
        callback,
    } = with;
    let (message, runner) = (*message, &service.runner);
    if callback.is_some() && matches!(service.servers.backend().await?, Backend::App(_)) {
        return Err(no_callback());
    }
    let server = &wake(&service.servers, id).await?;
    // The check of the task replaces all of its tags, too.
    let lock = runner.locks.lock(id).await;
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
            // To run an agent that has just begun to ask would be a permission.
            let runs = !task.needs_confirmation();
            return match server.prompt(id, message, runs).await {
                // The message takes effect at the end of the current step.
                Err(failure) if failure.is_timeout() => Ok(()),
                Ok(()) if !runs => check_taken(server, id).await,
                sent => sent.map_err(|failure| failure.about_change(UNKNOWN_IF_READ)),
            };
        }
        (Execution::Running, None) => return Ok(()),
        (Execution::Finished, None) => {
            return refuse("The task is finished: tell it what else to do with send_message.");
        }
        _ => {}
    }
    let messages = server.count_messages(id, "user").await?;
    if message.is_none() && messages == 0 {
        return refuse(
            "The start of the task was cut off, so its agent has no task: run it again.",
        );
    }
    let mut tags = ConversationTags::from_task(&task);
    if tags.fetch().is_some() {
        return match message {
            Some(_) => refuse("Its repository is being fetched: call wait_task first."),
            None => {
                runner.begin_later(id);
                Ok(())
            }
        };
    }
    let steps = server.count_actions(id).await?;
    let used = tags.used(&task, steps, server.now());
    let old = tags.limits(&task);
    let limits = service.max_budget.continue_with(&old, raised, &used)?;
    let has_run = tags.has_run();
    // Nothing is sent to a task that cannot run.
    let _slot = until_slot(slot_by, || runner.take_slot()).await?;
    let mut before = tags.clone();
    tags.set_limits(&limits);
    if !refuse_leftovers(server, id, NOT_DONE).await? {
        return refuse("The state of the task has just changed: look at get_task_status.");
    }
    if let Some(message) = message {
        send(server, id, message, messages).await?;
        // If it cannot run with the message, resume_task runs it.
        before.set_stop_reason(Some(StopReason::Cancelled), "");
    }
    if let Some(url) = callback {
        tags.renew_callback(url.as_str());
    }
    let started = async {
        if let Some(model) = tags.get(tag::MODEL) {
            use_model(server, id, model, has_run).await?;
        }
        runner.run(server, id, &mut tags, execution).await
    };
    let started = started.await;
    if let Err(failure) = &started {
        tags.set_back(&before);
        if let Err(error) = server.set_tags(id, &tags).await {
            tracing::warn!(task = %id, ?failure, ?error, "cannot take back the tags of the run");
        }
    }
    started.map_err(|failure| {
        let error = explain_conflict(failure);
        match message {
            Some(_) => explain_taken(error),
            None => error,
        }
    })?;
    if callback.is_some() {
        service.callbacks.expect(id);
    }
    drop(lock);
    Ok(())
}

/// Sends a message to an agent that stands still and has `before` of them.
///
/// # Errors
/// The agent does not have it, or that is not known: the error says which.
async fn send(
    server: &AgentServer,
    id: TaskId,
    message: &str,
    before: u64,
) -> Result<(), ToolError> {
    let failure = match server.prompt(id, message, false).await {
        Err(failure) if failure.is_ambiguous() => failure,
        sent => return Ok(sent?),
    };
    let now = server.count_messages(id, "user").await;
    if now.is_ok_and(|now| now > before) {
        return Ok(());
    }
    let error = ToolError::from(failure);
    let message = "The agent server has not confirmed the message, and the agent was not started. It is not \
                   known whether the agent has the message: if get_task_events shows it, call resume_task, \
                   otherwise send it again.";
    Err(ToolError::new(error.kind(), message).caused_by(error))
}

/// # Errors
/// The agent got a message that does not start it, and stands still. One that has finished has read it.
async fn check_taken(server: &AgentServer, id: TaskId) -> Result<(), ToolError> {
    let execution = server.conversation(id).await?.execution_status;
    if !execution.is_stopped() || execution == Execution::Finished {
        return Ok(());
    }
    let error = ToolError::conflict("The task stopped when the message came.");
    Err(explain_taken(error))
}

/// Says that the message must not be sent again.
fn explain_taken(error: ToolError) -> ToolError {
    let more = "The agent has the message: do not send it again, start it with resume_task.";
    with_more(error, more)
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
         again in half a minute; if that does not help, run what is left as a new task in its workspace.",
    )
    .caused_by(error)
}
