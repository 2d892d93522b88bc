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
    /// What was done since the last look, each in one line.
    pub(crate) news: Vec<String>,
}

/// What a task has brought so far.
pub(crate) struct Outcome {
    /// What the agent said last.
    pub(crate) result: Option<String>,
    /// What its last command printed.
    pub(crate) last_output: Option<String>,
}

impl Task {
    /// Looks at the task for the first time.
    pub(crate) async fn read(server: &AgentServer, id: TaskId) -> Result<Self, Failure> {
        let conversation = server.conversation(id).await?;
        let last_action: Option<Action> = server.last_event(id, kind::ACTION).await?;
        let steps = match &last_action {
            Some(action) => server.count_before(id, action).await? + 1,
            None => 0,
        };
        Ok(Self {
            id,
            verdict: judge(server, id, conversation, steps).await?,
            steps,
            news: last_action.iter().map(describe).collect(),
            last_action,
        })
    }

    /// Looks at it again.
    pub(crate) async fn look_again(&mut self, server: &AgentServer) -> Result<(), Failure> {
        let conversation = server.conversation(self.id).await?;
        self.news.clear();
        loop {
            let actions = server
                .actions_after(self.id, self.last_action.as_ref())
                .await?;
            self.news.extend(actions.iter().map(describe));
            self.steps += actions.len() as u64;
            match actions.into_iter().next_back() {
                Some(last) => self.last_action = Some(last),
                None => break,
            }
        }
        self.verdict = judge(server, self.id, conversation, self.steps).await?;
        Ok(())
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

async fn judge(
    server: &AgentServer,
    id: TaskId,
    mut conversation: Conversation,
    steps: u64,
) -> Result<Verdict, Failure> {
    let mut worked = steps > 0;
    if conversation.execution_status == Execution::Idle {
        // An agent that answers without acting takes no steps.
        worked = worked || server.count_messages(id).await? > 0;
        // What it did may be younger than the state: it is idle if it still is.
        if worked {
            conversation = server.conversation(id).await?;
        }
    }
    Ok(Verdict::of(&Evidence {
        execution: conversation.execution_status,
        worked,
        max_iterations: conversation.max_iterations,
        stop: stop(server, id, conversation.execution_status).await?,
    }))
}

/// How the run came to stand still, where the state alone does not say it.
async fn stop(
    server: &AgentServer,
    id: TaskId,
    execution: Execution,
) -> Result<Option<Stop>, Failure> {
    match execution {
        Execution::Error => {
            let (broke, lost) = tokio::try_join!(
                server.last_time(id, kind::RUN_ERROR),
                server.last_restart(id),
            )?;
            if lost > broke {
                return Ok(Some(Stop::Restart));
            }
            let error: Option<RunError> = server.last_event(id, kind::RUN_ERROR).await?;
            Ok(error.map(Stop::Broke))
        }
        Execution::Paused => {
            let (interrupted, paused) = tokio::try_join!(
                server.last_time(id, kind::INTERRUPT),
                server.last_time(id, kind::PAUSE),
            )?;
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
    fn check(mut action: Value, line: &str) {
        action["id"] = json!("a");
        action["timestamp"] = json!("2026-11-21T08:04:38.844052");
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
