//! Permissions that the agent of a task asks for: asking the user, and sending the answer.

use std::time::Duration;

use mcp_core::server::PreviousRounds;
use mcp_core::tool::{Call, InputRequest, ToolError, ToolErrorKind};
use serde::Deserialize as _;
use serde_json::{Value, json};
use upstream::text::head;

use super::pending::PendingActions;
use crate::OpenHands;
use crate::api::{AgentServer, Conversation, Execution, TaskId};
use crate::tags::ConversationTags;

const MAX_REASON_BYTES: usize = 2_000;
const DEFAULT_REASON: &str = "The user refused it.";

/// Polls after an answer was sent, and their interval.
const MAX_ANSWER_POLLS: u32 = 40;
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The answer to an agent that asks for a permission.
pub(crate) struct PermissionAnswer {
    /// Names the actions that it allows or refuses.
    pub(crate) confirmation_id: String,
    pub(crate) accept: bool,
    /// The reason of a refusal.
    pub(crate) reason: String,
}

impl PermissionAnswer {
    /// # Errors
    /// The reason is too long.
    pub(crate) fn new(
        confirmation_id: String,
        accept: bool,
        reason: Option<String>,
    ) -> Result<Self, ToolError> {
        let reason = reason.unwrap_or_else(|| DEFAULT_REASON.into());
        if reason.len() > MAX_REASON_BYTES {
            return Err(ToolError::invalid_argument(format!(
                "reason is longer than {MAX_REASON_BYTES} bytes."
            )));
        }
        Ok(Self {
            confirmation_id,
            accept,
            reason,
        })
    }
}

/// Asks the user for the permission, if the client supports it: for what waits now, or only for the actions that
/// `confirmation_id` names. Returns `None` if the client does not support it, or if the user closes the question; the
/// agent waits on.
///
/// # Errors
/// The agent does not wait for a permission, the agent server does not answer, or the call has to end
/// so that its client can ask the user.
pub(crate) async fn ask_user(
    server: &AgentServer,
    id: TaskId,
    confirmation_id: Option<&str>,
    call: &Call,
) -> Result<Option<PermissionAnswer>, ToolError> {
    if !call.capabilities().elicitation {
        return Ok(None);
    }
    let (_, pending) = waiting(server, id, confirmation_id).await?;
    // The key names the actions: a call that is repeated with an answer must not use it for the next
    // ones.
    let key = format!("permission-{}", pending.id());
    let question = question(id, &pending);
    let rounds = call.extension::<PreviousRounds>();
    if !call.waits_for_answers() && rounds.is_none_or(|rounds| !rounds.answers.contains_key(&key)) {
        return Err(call.require_input(&[(&*key, question)], json!(id))?);
    }
    let answer = call.ask(&key, question).await?;
    Ok(parse_answer(pending.id(), &answer))
}

/// The task that a call asked about when it ended, if this one repeats it with the answer.
pub(crate) fn task_of_question(call: &Call) -> Option<TaskId> {
    let rounds = call.extension::<PreviousRounds>()?;
    TaskId::deserialize(&rounds.memo).ok()
}

/// Sends the answer to the agent, if it still waits for the permission for these actions.
///
/// # Errors
/// The agent does not wait for a permission or waits for another one, or the agent server does not answer.
pub(crate) async fn send_answer(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    answer: &PermissionAnswer,
) -> Result<(), ToolError> {
    let lock = service.runner.locks.lock(id).await;
    let (task, pending) = waiting(server, id, Some(&answer.confirmation_id)).await?;
    // A permission starts a new run with the rest of the time; a refusal ends the run.
    let mut tags = ConversationTags::from_task(&task);
    if answer.accept {
        tags.begin_run();
        service.runner.watch(id);
    }
    server.set_tags(id, tags.as_tags()).await?;
    // That may have taken long, and the agent server takes an answer for whatever waits when it comes.
    waiting(server, id, Some(pending.id())).await?;
    let sent = server.respond(id, answer.accept, &answer.reason).await;
    // Before the lock is released: the next answer must not come before this one has its effect.
    let has_effect = !still_waits(server, id, pending.id()).await;
    drop(lock);
    if tags.callback().is_some() {
        service.callbacks.expect(id);
    }
    match sent {
        // It has arrived, only its response was lost.
        Err(failure) if !(failure.is_ambiguous() && has_effect) => Err(failure.into()),
        _ => Ok(()),
    }
}

/// Waits briefly until the state of a task reflects the answer. Returns true if it still waits for the permission
/// for these actions.
async fn still_waits(server: &AgentServer, id: TaskId, confirmation_id: &str) -> bool {
    for _ in 0..MAX_ANSWER_POLLS {
        match waiting(server, id, Some(confirmation_id)).await {
            Err(error) if error.kind() == ToolErrorKind::Conflict => return false,
            _ => tokio::time::sleep(ANSWER_POLL_INTERVAL).await,
        }
    }
    true
}

/// The task and what it waits for.
///
/// # Errors
/// It does not wait for a permission, or not for the one that `confirmation_id` names.
async fn waiting(
    server: &AgentServer,
    id: TaskId,
    confirmation_id: Option<&str>,
) -> Result<(Conversation, PendingActions), ToolError> {
    let task = server.conversation(id).await?;
    if task.execution_status != Execution::WaitingForConfirmation {
        return Err(ToolError::conflict(
            "The task is not waiting for a permission. get_task_status shows what it does.",
        ));
    }
    let pending = PendingActions::read(server, id).await?;
    match confirmation_id {
        Some(given) if given != pending.id() => Err(pending.conflict()),
        _ => Ok((task, pending)),
    }
}

/// The question for the user.
fn question(id: TaskId, pending: &PendingActions) -> InputRequest {
    let schema = json!({
        "type": "object",
        "properties": {
            "allow": {"type": "boolean", "title": "Allow it?"},
            "reason": {"type": "string", "title": "If not: why, or what instead"},
        },
        "required": ["allow"],
    });
    InputRequest::elicit(&pending.question(id), schema)
}

/// Parses the user's answer. `None` if the user closed the question.
fn parse_answer(confirmation_id: &str, answer: &Value) -> Option<PermissionAnswer> {
    let content = &answer["content"];
    let accept = match answer["action"].as_str() {
        Some("accept") => content["allow"] == true,
        Some("decline") => false,
        _ => return None,
    };
    let reason = content["reason"].as_str().map(str::trim);
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason.map_or(DEFAULT_REASON.into(), |text| head(text, MAX_REASON_BYTES));
    Some(PermissionAnswer {
        confirmation_id: confirmation_id.to_owned(),
        accept,
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_explicit_consent_allows_the_action() {
        let said =
            |answer: Value| parse_answer("a", &answer).map(|answer| (answer.accept, answer.reason));
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
