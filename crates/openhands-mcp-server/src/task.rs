//! A task as it is at one moment.

use serde_json::Value;

use crate::api::{Action, AgentServer, Conversation, Execution, Failure, RunError, kind};
use crate::excerpt;
use crate::status::{Evidence, Stop, TaskStatus, Verdict};
use crate::task_id::TaskId;

/// Bytes of an action in a status or a progress message.
const MAX_ACTION: usize = 160;
/// Bytes of the agent's answer; with the output below, an answer stays under 2,000 tokens.
const MAX_RESULT: usize = 5_000;
/// Bytes of the last command's output: its end, where the outcome is.
const MAX_OUTPUT: usize = 1_500;

/// What is known about a task.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) verdict: Verdict,
    /// Actions that the agent has taken.
    pub(crate) steps: u64,
    last_action: Option<Action>,
}

/// What a task has brought so far.
pub(crate) struct Outcome {
    /// What the agent said last.
    pub(crate) result: Option<String>,
    /// What its last command printed.
    pub(crate) last_output: Option<String>,
}

impl Task {
    /// Reads the task; less of it where it has got no further since `earlier`.
    pub(crate) async fn read(
        server: &AgentServer,
        id: TaskId,
        earlier: Option<&Self>,
    ) -> Result<Self, Failure> {
        let conversation = server.conversation(id).await?;
        // Of a run under way only the events are up to date.
        let steps = server.count_events(id, kind::ACTION, None).await?;
        let last_action = match earlier.filter(|task| task.steps == steps) {
            Some(task) => task.last_action.clone(),
            None => server.last_event(id, kind::ACTION).await?,
        };
        let evidence = Evidence {
            execution: conversation.execution_status,
            worked: steps > 0 || has_spoken(server, id, &conversation).await?,
            max_iterations: conversation.max_iterations,
            stop: stop(server, id, conversation.execution_status).await?,
        };
        Ok(Self {
            id,
            verdict: Verdict::of(&evidence),
            steps,
            last_action,
        })
    }

    /// What the task is doing.
    pub(crate) fn status(&self) -> TaskStatus {
        self.verdict.status
    }

    /// What the agent did last, in one line.
    pub(crate) fn last_action(&self) -> Option<String> {
        self.last_action.as_ref().map(describe)
    }

    /// What the task has brought so far: it need not have ended.
    pub(crate) async fn outcome(&self, server: &AgentServer) -> Result<Outcome, Failure> {
        let mut said = server.final_response(self.id).await?;
        if said.trim().is_empty() {
            said = self.thought();
        }
        let printed = server.last_output(self.id).await?.unwrap_or_default();
        let some = |text: String| (!text.trim().is_empty()).then_some(text);
        Ok(Outcome {
            result: some(excerpt::head(&said, MAX_RESULT)),
            last_output: some(excerpt::tail(&printed, MAX_OUTPUT)),
        })
    }

    /// What the agent said while it took its last action.
    fn thought(&self) -> String {
        let thought = self.last_action.iter().flat_map(|action| &action.thought);
        thought.map(|part| part.text.as_str()).collect()
    }
}

/// Only asked where it decides: an agent that answers without acting takes no steps.
async fn has_spoken(
    server: &AgentServer,
    id: TaskId,
    conversation: &Conversation,
) -> Result<bool, Failure> {
    if conversation.execution_status != Execution::Idle {
        return Ok(false);
    }
    let messages = server.count_events(id, kind::MESSAGE, Some("agent"));
    Ok(messages.await? > 0)
}

/// How the run came to stand still, where the state alone does not say it.
async fn stop(
    server: &AgentServer,
    id: TaskId,
    execution: Execution,
) -> Result<Option<Stop>, Failure> {
    match execution {
        Execution::Error => {
            let broke = server.last_time(id, kind::RUN_ERROR).await?;
            let lost = server.last_restart(id).await?;
            if lost > broke {
                return Ok(Some(Stop::Restart));
            }
            let error: Option<RunError> = server.last_event(id, kind::RUN_ERROR).await?;
            Ok(error.map(Stop::Broke))
        }
        Execution::Paused => {
            let interrupted = server.last_time(id, kind::INTERRUPT).await?;
            let paused = server.last_time(id, kind::PAUSE).await?;
            Ok((interrupted > paused).then_some(Stop::Interrupt))
        }
        _ => Ok(None),
    }
}

/// An action in one line: the model's own summary, or the tool with its main argument.
fn describe(action: &Action) -> String {
    let tool = &action.tool_name;
    let argument = |name: &str| {
        let arguments = action.action.as_ref()?;
        arguments.get(name).and_then(Value::as_str)
    };
    let text = match &action.summary {
        // `tool: {…}` is what the agent server writes where the model has no words.
        Some(summary) if !summary.starts_with(&format!("{tool}: {{")) => summary.clone(),
        _ => {
            // A path shows where the agent server keeps its files; its last part says enough.
            let file = argument("path").and_then(|path| path.rsplit('/').next());
            let parts = [Some(tool.as_str()), argument("command"), file];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
    };
    excerpt::line(&text, MAX_ACTION)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(action: Value, line: &str) {
        assert_eq!(describe(&serde_json::from_value(action).unwrap()), line);
    }

    #[test]
    fn an_action_is_one_line() {
        check(
            json!({"tool_name": "terminal", "summary": "terminal: {\"command\": \"ls\"}",
                "action": {"command": "ls -l \\\n  src"}}),
            "terminal ls -l \\ src",
        );
        check(
            json!({"tool_name": "terminal", "summary": "List the files", "action": {"command": "ls"}}),
            "List the files",
        );
        check(
            json!({"tool_name": "file_editor", "summary": null,
                "action": {"command": "create", "path": "/srv/tasks/1/src/a.rs", "file_text": "x"}}),
            "file_editor create a.rs",
        );
        check(json!({"tool_name": "odd", "action": null}), "odd");
        check(json!({"tool_name": "odd", "action": {"command": 3}}), "odd");
    }
}
