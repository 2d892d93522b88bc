//! Asks the caller's user.

use std::time::Duration;

use mcp_core::tool::{InputRequest, ToolError};
use serde_json::{Value, json};

use super::{Approvals, GuardedCall};
use crate::events::{Event, EventStatus, kind};

impl Approvals {
    /// Returns an error unless the user says yes to this tool with these arguments.
    pub(super) async fn confirm(
        &self,
        guarded: &GuardedCall<'_>,
        timeout: Duration,
    ) -> Result<(), ToolError> {
        let (tool, call) = (guarded.tool, guarded.call);
        if !call.capabilities().elicitation {
            self.record_answer(guarded, "not asked");
            return Err(ToolError::forbidden(format!(
                "{tool} needs a confirmation by the user, and this client cannot ask for it: it has not declared \
                 `elicitation`. Nothing was done. Use a client with elicitation (2025-06-18 or newer)."
            )));
        }
        let message = format!(
            "Allow the call of {tool} (backend {})? Its arguments:\n{}",
            guarded.backend,
            guarded.shown_arguments()
        );
        let schema = json!({
            "type": "object",
            "properties": {"confirm": {"type": "boolean", "title": format!("Call {tool}?")}},
            "required": ["confirm"],
        });
        // In the modern era an answer counts for its key: with other arguments the user is asked again.
        let key = format!("gateway.confirm.{}", guarded.hash());
        let question = call.ask(&key, InputRequest::elicit(&message, schema));
        let answer = tokio::select! {
            answer = tokio::time::timeout(timeout, question) => answer,
            () = call.cancelled() => {
                self.record_answer(guarded, "cancelled");
                return Err(super::park::cancelled(tool));
            }
        };
        let outcome = match answer {
            Ok(Err(error)) if error.asks_client() => return Err(error),
            Ok(Ok(answer)) => outcome(&answer),
            Ok(Err(_)) => "no valid answer",
            Err(_) => "no answer in time",
        };
        self.record_answer(guarded, outcome);
        match outcome {
            CONFIRMED => Ok(()),
            _ => Err(ToolError::forbidden(format!(
                "The user has not confirmed the call of {tool} ({outcome}). Nothing was done."
            ))),
        }
    }

    fn record_answer(&self, guarded: &GuardedCall<'_>, outcome: &'static str) {
        let facts = json!({
            "tool_name": guarded.tool,
            "backend": guarded.backend,
            "principal": guarded.caller(),
            "outcome": outcome,
            "hash": guarded.hash(),
        });
        let status = match outcome {
            CONFIRMED => EventStatus::Success,
            _ => EventStatus::Failure,
        };
        self.log
            .record(Event::new(kind::CONFIRMATION, status, facts));
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
