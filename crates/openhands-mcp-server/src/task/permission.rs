//! The permission that the agent of a task asks for: who gives it, and passing it on.

use std::time::Duration;

use mcp_core::tool::{Call, InputRequest, ToolError, ToolErrorKind};
use serde_json::{Value, json};
use upstream::redact::redacted_code;
use upstream::text::head;

use crate::api::{Action, AgentServer, Execution, TaskId, kind};
use crate::events::summary;
use crate::tags::ConversationTags;

/// Bytes of the action's arguments that the user is shown.
const MAX_ARGUMENTS: usize = 4_000;
/// Bytes of a reason.
const MAX_REASON: usize = 2_000;

/// Looks at a task that was just answered, and the time between them.
const MAX_ANSWER_POLLS: u32 = 40;
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The answer to an agent that asks for a permission.
pub(crate) struct Answer {
    pub(crate) accept: bool,
    /// Why not.
    pub(crate) reason: String,
}

impl Answer {
    /// # Errors
    /// The reason is too long.
    pub(crate) fn new(accept: bool, reason: Option<String>) -> Result<Self, ToolError> {
        let reason = reason.unwrap_or_else(|| "The user refused it.".into());
        if reason.len() > MAX_REASON {
            return Err(ToolError::invalid_argument(format!(
                "reason is longer than {MAX_REASON} bytes."
            )));
        }
        Ok(Self { accept, reason })
    }
}

/// Has the user answer what the agent asks, where the client can ask them. `None` where it cannot, or
/// where the user put the question off: it stays open then.
///
/// # Errors
/// The agent does not ask, the agent server does not answer, or to end this round of the call.
pub(crate) async fn ask_user(
    server: &AgentServer,
    id: TaskId,
    call: &Call,
) -> Result<Option<Answer>, ToolError> {
    if !call.capabilities().elicitation {
        return Ok(None);
    }
    let task = server.conversation(id).await?;
    if task.execution_status != Execution::WaitingForConfirmation {
        return Err(not_asking());
    }
    let asked: Option<Action> = server.last_event(id, kind::ACTION).await?;
    let Some(action) = asked else {
        return Ok(None);
    };
    // One question for each action: a call that is repeated with an answer must not take it for the
    // answer to the next one.
    let key = format!("permission-{}", action.id());
    let answer = call.ask(&key, question(id, &action)).await?;
    Ok(understand(&answer))
}

/// Tells the agent whether it may do what it asks for.
///
/// # Errors
/// The agent does not ask, or cannot be told.
pub(crate) async fn give_answer(
    server: &AgentServer,
    id: TaskId,
    answer: &Answer,
) -> Result<(), ToolError> {
    let task = server.conversation(id).await?;
    if task.execution_status != Execution::WaitingForConfirmation {
        return Err(not_asking());
    }
    // Its run begins anew, and with it the time that it may take; or it is over.
    let mut tags = ConversationTags::new(task.tags);
    match answer.accept {
        true => tags.begin(),
        false => tags.end(),
    }
    server.set_tags(id, tags.as_tags()).await?;
    let asked: Option<Action> = server.last_event(id, kind::ACTION).await?;
    server.respond(id, answer.accept, &answer.reason).await?;
    wait_for_next_state(server, id, asked.as_ref()).await;
    Ok(())
}

/// Waits a moment until the state of a task shows that its question was answered: until then it
/// still says that it waits, for the action that was `asked` for.
async fn wait_for_next_state(server: &AgentServer, id: TaskId, asked: Option<&Action>) {
    for _ in 0..MAX_ANSWER_POLLS {
        let now = tokio::try_join!(
            server.conversation(id),
            server.last_event::<Action>(id, kind::ACTION),
        );
        let still = now.is_ok_and(|(task, last)| {
            task.execution_status == Execution::WaitingForConfirmation
                && last.as_ref().map(Action::id) == asked.map(Action::id)
        });
        if !still {
            return;
        }
        tokio::time::sleep(ANSWER_POLL_INTERVAL).await;
    }
}

fn not_asking() -> ToolError {
    ToolError::new(
        ToolErrorKind::Conflict,
        "The task does not wait for a permission. Ask get_task_status what it does.",
    )
}

/// Shows all of the action: what is cut off could be what matters, so that is said.
fn question(id: TaskId, action: &Action) -> InputRequest {
    let arguments = action.action.as_ref().map(|arguments| json!(arguments));
    let arguments = arguments.unwrap_or_default().to_string();
    let message = format!(
        "The agent of task {id} asks whether it may do this:\n\n{}\n\n{} {}",
        summary::action(action),
        action.tool_name,
        head(&redacted_code(&arguments), MAX_ARGUMENTS),
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

/// Only a yes is one. Who closes the question has not answered it.
fn understand(answer: &Value) -> Option<Answer> {
    let content = &answer["content"];
    let accept = match answer["action"].as_str() {
        Some("accept") => content["allow"] == true,
        Some("decline") => false,
        _ => return None,
    };
    let reason = content["reason"].as_str().map(str::trim);
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason.map_or("The user refused it.".into(), |reason| {
        head(reason, MAX_REASON)
    });
    Some(Answer { accept, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        let said = |answer: Value| understand(&answer).map(|answer| (answer.accept, answer.reason));
        let refused = "The user refused it.".to_owned();
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
