//! Asks the caller's user.

use std::time::Duration;

use gateway_store::events::{Event, EventStatus, kind};
use gateway_store::state::{EntryChange, EntryKind, Expected};
use mcp_core::server::PreviousRounds;
use mcp_core::tool::{Call, InputRequest, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::ShownArguments;
use super::park::{TIME_AFTER_DECISION, cancelled};
use super::{Approvals, GuardedCall, now};

/// The member of the state between two rounds that has a [`Question`].
const QUESTION: &str = "gateway.confirm";

/// A question that was asked in an earlier round. The client returns it signed.
#[derive(Serialize, Deserialize)]
struct Question {
    /// Its answer counts once.
    nonce: String,
    /// Seconds since 1970.
    expires: i64,
}

/// True if the state between two rounds is that of a question of the gateway, and not of a backend.
pub fn is_question(memo: &Value) -> bool {
    memo.get(QUESTION).is_some()
}

impl Approvals {
    /// Returns an error unless the user says yes to this tool with these arguments.
    pub(super) async fn confirm(
        &self,
        guarded: &GuardedCall<'_>,
        shown: &ShownArguments,
        timeout: Duration,
    ) -> Result<(), ToolError> {
        let (tool, call) = (guarded.tool, guarded.call);
        let record = |outcome| self.record_answer(guarded, shown, outcome);
        if !call.capabilities().elicitation {
            record("not asked");
            return Err(ToolError::forbidden(format!(
                "{tool} needs a confirmation by the user, and this client cannot ask for it: it has not declared \
                 `elicitation`. Nothing was done. Use a client with elicitation (2025-06-18 or newer)."
            )));
        }
        let message = format!(
            "Allow the call of {tool} (backend {})? Its arguments:\n{}",
            guarded.backend, shown.text
        );
        let schema = json!({
            "type": "object",
            "properties": {"confirm": {"type": "boolean", "title": format!("Call {tool}?")}},
            "required": ["confirm"],
        });
        // In the modern era an answer counts for its key: with other arguments the user is asked again.
        let key = format!("gateway.confirm.{}", shown.hash);
        let request = InputRequest::elicit(&message, schema);
        let mut timeout = timeout;
        if call.waits_for_answers() {
            call.extend_timeout(timeout + TIME_AFTER_DECISION);
        } else {
            let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
            let Some(question) = self.answered(call, &key).await else {
                let question = Question {
                    nonce: Uuid::new_v4().simple().to_string(),
                    expires: now().saturating_add(seconds),
                };
                let asked = call.require_input(&[(&key, request)], json!({QUESTION: question}));
                return Err(asked.unwrap_or_else(|error| error));
            };
            if question.expires < now() {
                timeout = Duration::ZERO;
            }
        }
        let question = call.ask(&key, request);
        let answer = tokio::select! {
            biased;
            () = guarded.abandoned() => {
                record("cancelled");
                return Err(cancelled(tool));
            }
            () = self.stopping.cancelled() => {
                record("cancelled");
                return Err(cancelled(tool));
            }
            answer = within(timeout, question) => answer,
        };
        let outcome = match answer {
            Some(Err(error)) if error.asks_client() => return Err(error),
            Some(Ok(answer)) => outcome(&answer),
            Some(Err(_)) => "no valid answer",
            None => "no answer in time",
        };
        if outcome == CONFIRMED && self.lost(guarded).is_some() {
            record("cancelled");
            return Err(cancelled(tool));
        }
        record(outcome);
        match outcome {
            CONFIRMED => Ok(()),
            _ => Err(ToolError::forbidden(format!(
                "The user has not confirmed the call of {tool} ({outcome}). Nothing was done."
            ))),
        }
    }

    /// The question of an earlier round that this round answers. An answer to nothing that was asked does not count,
    /// and none counts twice.
    async fn answered(&self, call: &Call, key: &str) -> Option<Question> {
        let round = call.extension::<PreviousRounds>()?;
        let question = round.memo.get(QUESTION)?;
        let question: Question = serde_json::from_value(question.clone()).ok()?;
        let is_answered = round.answers.contains_key(key) && self.use_up(&question).await;
        is_answered.then_some(question)
    }

    /// Uses the answer to a question up, also for the gateways with the same database, and for this one after a
    /// restart. Returns false if it was used before.
    async fn use_up(&self, question: &Question) -> bool {
        let change = EntryChange {
            kind: EntryKind::UsedAnswer,
            key: question.nonce.clone(),
            expected: Expected::Missing,
            value: Some(question.expires.to_string().into()),
        };
        // Without the database only this process knows it.
        self.rounds.use_up(&question.nonce) && self.state.change(vec![change]).await.unwrap_or(true)
    }

    fn record_answer(
        &self,
        guarded: &GuardedCall<'_>,
        shown: &ShownArguments,
        outcome: &'static str,
    ) {
        let facts = json!({
            "tool_name": guarded.tool,
            "backend": guarded.backend,
            "principal": guarded.caller(),
            "outcome": outcome,
            "hash": shown.hash,
        });
        let status = match outcome {
            CONFIRMED => EventStatus::Success,
            _ => EventStatus::Failure,
        };
        self.log
            .record(Event::new(kind::CONFIRMATION, status, facts));
    }
}

/// The output of `work`; `None` if there is no time, or not enough.
async fn within<T>(timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
    match timeout.is_zero() {
        true => None,
        false => tokio::time::timeout(timeout, work).await.ok(),
    }
}

const CONFIRMED: &str = "confirmed";

fn outcome(answer: &Value) -> &'static str {
    match answer["action"].as_str() {
        Some("accept") if answer["content"]["confirm"] == true => CONFIRMED,
        Some("accept") => "not confirmed",
        Some("decline") => "declined",
        Some("cancel") => "dismissed",
        _ => "no valid answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_yes_confirms() {
        let accept = |content| json!({"action": "accept", "content": content});
        assert_eq!(outcome(&accept(json!({"confirm": true}))), CONFIRMED);
        for answer in [
            accept(json!({"confirm": false})),
            accept(json!({"confirm": "true"})),
            accept(json!({"confirm": 1})),
            accept(json!({})),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"confirm": true}}),
            json!({"action": "cancel", "content": {"confirm": true}}),
            json!({"content": {"confirm": true}}),
            json!({"confirm": true}),
            json!(true),
            json!(null),
        ] {
            assert_ne!(outcome(&answer), CONFIRMED, "{answer}");
        }
    }
}
