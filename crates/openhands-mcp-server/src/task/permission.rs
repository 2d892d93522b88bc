//! Permissions that the agent of a task asks for: asking the user, and sending the answer.

use std::time::Duration;

use mcp_core::server::PreviousRounds;
use mcp_core::tool::{Call, InputRequest, ToolError};
use openhands_api::{AgentServer, Conversation, Event, Execution, TaskId, event_kind, summary};
use serde::Deserialize as _;
use serde_json::{Value, json};
use upstream::redact::redacted_code;
use upstream::text::head;

use crate::scheduler::Scheduler;
use crate::tags::ConversationTags;

/// Bytes of the action's arguments that are shown to the user.
const MAX_ARGUMENT_BYTES: usize = 4_000;
const MAX_REASON_BYTES: usize = 2_000;
const DEFAULT_REASON: &str = "The user refused it.";

/// Polls after an answer was sent, and their interval.
const MAX_ANSWER_POLLS: u32 = 40;
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The answer to an agent that asks for a permission.
pub(crate) struct PermissionAnswer {
    pub(crate) accept: bool,
    /// The reason of a refusal.
    pub(crate) reason: String,
}

impl PermissionAnswer {
    /// # Errors
    /// The reason is too long.
    pub(crate) fn new(accept: bool, reason: Option<String>) -> Result<Self, ToolError> {
        let reason = reason.unwrap_or_else(|| DEFAULT_REASON.into());
        if reason.len() > MAX_REASON_BYTES {
            return Err(ToolError::invalid_argument(format!(
                "reason is longer than {MAX_REASON_BYTES} bytes."
            )));
        }
        Ok(Self { accept, reason })
    }
}

/// Asks the user for the permission, if the client supports it. Returns `None` if it does not, or if
/// the user closes the question; the agent waits on.
///
/// # Errors
/// The agent does not wait for a permission, the agent server does not answer, or the call has to end
/// so that its client can ask the user.
pub(crate) async fn ask_user(
    server: &AgentServer,
    id: TaskId,
    call: &Call,
) -> Result<Option<PermissionAnswer>, ToolError> {
    if !call.capabilities().elicitation {
        return Ok(None);
    }
    waiting_conversation(server, id).await?;
    let asked: Option<Event> = server.last_event(id, event_kind::ACTION).await?;
    let Some(action) = asked else {
        return Ok(None);
    };
    // The key names the action: a call that is repeated with an answer must not use it for the next
    // action.
    let key = format!("permission-{}", action.id);
    let question = question(id, &action);
    let rounds = call.extension::<PreviousRounds>();
    if !call.waits_for_answers() && rounds.is_none_or(|rounds| !rounds.answers.contains_key(&key)) {
        return Err(call.require_input(&[(&*key, question)], json!(id))?);
    }
    let answer = call.ask(&key, question).await?;
    Ok(parse_answer(&answer))
}

/// The task that a call asked about when it ended, if this one repeats it with the answer.
pub(crate) fn task_of_question(call: &Call) -> Option<TaskId> {
    let rounds = call.extension::<PreviousRounds>()?;
    TaskId::deserialize(&rounds.memo).ok()
}

/// Sends the answer to the agent.
///
/// # Errors
/// The agent does not wait for a permission, or the agent server does not answer.
pub(crate) async fn send_answer(
    scheduler: &Scheduler,
    server: &AgentServer,
    id: TaskId,
    answer: &PermissionAnswer,
) -> Result<(), ToolError> {
    let lock = scheduler.starts.lock(id).await;
    let task = waiting_conversation(server, id).await?;
    // A permission starts a new run with the rest of the time; a refusal ends the run.
    let mut tags = ConversationTags::from_task(&task);
    if answer.accept {
        tags.begin_run();
    }
    server.set_tags(id, tags.as_tags()).await?;
    let asked: Option<Event> = server.last_event(id, event_kind::ACTION).await?;
    server.respond(id, answer.accept, &answer.reason).await?;
    wait_for_next_state(server, id, asked.as_ref()).await;
    drop(lock);
    Ok(())
}

/// Waits briefly until the state of a task reflects the answer. Until then it still waits for a
/// permission for the action `asked`.
async fn wait_for_next_state(server: &AgentServer, id: TaskId, asked: Option<&Event>) {
    for _ in 0..MAX_ANSWER_POLLS {
        let now = tokio::try_join!(
            server.conversation(id),
            server.last_event::<Event>(id, event_kind::ACTION),
        );
        let still = now.is_ok_and(|(task, last)| {
            task.execution_status == Execution::WaitingForConfirmation
                && last.map(|last| last.id) == asked.map(|asked| asked.id.clone())
        });
        if !still {
            return;
        }
        tokio::time::sleep(ANSWER_POLL_INTERVAL).await;
    }
}

async fn waiting_conversation(server: &AgentServer, id: TaskId) -> Result<Conversation, ToolError> {
    let task = server.conversation(id).await?;
    if task.execution_status == Execution::WaitingForConfirmation {
        return Ok(task);
    }
    Err(ToolError::conflict(
        "The task is not waiting for a permission. get_task_status shows what it does.",
    ))
}

/// The question for the user. It shows all arguments of the action, or says that they are truncated,
/// because the truncated part may matter.
fn question(id: TaskId, action: &Event) -> InputRequest {
    let arguments = action.action.as_ref().map(|arguments| json!(arguments));
    let arguments = arguments.unwrap_or_default().to_string();
    let message = format!(
        "The agent of task {id} asks whether it may do this:\n\n{}\n\n{} {}",
        summary::event(action),
        action.tool_name.as_deref().unwrap_or("tool"),
        head(&redacted_code(&arguments), MAX_ARGUMENT_BYTES),
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "allow": {"type": "boolean", "title": "Allow it?"},
            "reason": {"type": "string", "title": "If not: why, or what instead"},
        },
        "required": ["allow"],
    });
    InputRequest::elicit(&message, schema)
}

/// Parses the user's answer. `None` if the user closed the question.
fn parse_answer(answer: &Value) -> Option<PermissionAnswer> {
    let content = &answer["content"];
    let accept = match answer["action"].as_str() {
        Some("accept") => content["allow"] == true,
        Some("decline") => false,
        _ => return None,
    };
    let reason = content["reason"].as_str().map(str::trim);
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason.map_or(DEFAULT_REASON.into(), |text| head(text, MAX_REASON_BYTES));
    Some(PermissionAnswer { accept, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_explicit_consent_allows_the_action() {
        let said =
            |answer: Value| parse_answer(&answer).map(|answer| (answer.accept, answer.reason));
        let refused = DEFAULT_REASON.to_owned();
        let yes = said(json!({"action": "accept", "content": {"allow": true}}));
        assert_eq!(yes, Some((true, refused.clone())));
        let no =
            said(json!({"action": "accept", "content": {"allow": false, "reason": " not it "}}));
        assert_eq!(no, Some((false, "not it".to_owned())));
        for no in [json!({"action": "accept"}), json!({"action": "decline"})] {
            assert_eq!(said(no), Some((false, refused.clone())));
        }
        for none in [json!({"action": "cancel"}), json!({}), Value::Null] {
            assert_eq!(said(none), None);
        }
    }
}
