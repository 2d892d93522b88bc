//! The JSON of tasks in both specifications.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::POLL_INTERVAL;
use super::outcome::TaskOutcome;
use super::task::{Task, TaskState};
use crate::era::Era;
use crate::error::ErrorCodes;
use crate::jsonrpc::Json;

impl Task {
    /// The members of a `DetailedTask` (the extension), without braces: the task, with its result,
    /// error or questions.
    pub(in crate::server) fn detailed(&self) -> String {
        let state = self.state();
        let mut members = self.modern_members(&state);
        let mut push = |name: &str, json: &str| members.extend([r#",""#, name, r#"":"#, json]);
        match &state.outcome {
            // Inserted as JSON, so that the result keeps the bytes of the tool.
            Some(TaskOutcome::Result { json, .. }) => push("result", json.as_str()),
            Some(TaskOutcome::Error(error)) => {
                let error = error.render(Era::Modern, ErrorCodes::Spec);
                push("error", &json!(error).to_string());
            }
            Some(TaskOutcome::Cancelled) => {}
            None if state.questions.is_empty() => {}
            None => push("inputRequests", &json!(state.questions).to_string()),
        }
        members
    }

    /// A `CreateTaskResult` (the extension), without its `resultType`.
    pub(super) fn created_modern(&self) -> Json {
        Json::Owned(format!("{{{}}}", self.modern_members(&self.state())))
    }

    fn modern_members(&self, state: &TaskState) -> String {
        let mut task = self.common(state, state.status(false));
        task["ttlMs"] = millis(self.ttl());
        task["pollIntervalMs"] = millis(POLL_INTERVAL);
        let text = task.to_string();
        let members = text.strip_prefix('{').unwrap_or_default();
        members.strip_suffix('}').unwrap_or_default().to_owned()
    }

    /// A `Task` of 2025-11-25.
    pub(super) fn legacy(&self) -> Value {
        let state = self.state();
        let mut task = self.common(&state, state.status(true));
        task["ttl"] = millis(self.ttl());
        task["pollInterval"] = millis(POLL_INTERVAL);
        task
    }

    fn common(&self, state: &TaskState, status: &str) -> Value {
        let mut task = json!({
            "taskId": self.id,
            "status": status,
            "createdAt": timestamp(self.created),
            "lastUpdatedAt": timestamp(state.updated),
        });
        if let Some(message) = &state.message {
            task["statusMessage"] = json!(message);
        }
        task
    }

    /// The `_meta` that relates a message of 2025-11-25 to its task.
    pub(super) fn related(&self) -> Value {
        json!({"io.modelcontextprotocol/related-task": {"taskId": self.id}})
    }
}

impl TaskState {
    /// The status. A task whose tool failed is `failed` in 2025-11-25; in the extension it is
    /// `completed`, with a result that has `isError`.
    fn status(&self, failed_tool_fails: bool) -> &'static str {
        match &self.outcome {
            Some(TaskOutcome::Result { is_error: true, .. }) if failed_tool_fails => "failed",
            Some(TaskOutcome::Result { .. }) => "completed",
            Some(TaskOutcome::Error(_)) => "failed",
            Some(TaskOutcome::Cancelled) => "cancelled",
            None if self.questions.is_empty() => "working",
            None => "input_required",
        }
    }
}

fn millis(duration: Duration) -> Value {
    json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// `since_1970` in UTC, to the millisecond: `2026-07-28T09:30:00.000Z`.
fn timestamp(since_1970: Duration) -> String {
    let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_in_utc_to_the_millisecond() {
        let at = |millis| timestamp(Duration::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(1_785_231_000_007), "2026-07-28T09:30:00.007Z");
        assert_eq!(at(4_107_542_400_120), "2100-03-01T00:00:00.120Z");
    }
}
