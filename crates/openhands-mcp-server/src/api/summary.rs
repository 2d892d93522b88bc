//! One-line summaries of events. Pure.

use crate::api::events::{Event, TextPart, event_kind};
use serde_json::Value;
use upstream::redact::{Redactor, redacted};
use upstream::text::one_line;

/// Characters of an action in a status or a progress message.
const MAX_ACTION_CHARS: usize = 160;
/// Characters of any other event.
const MAX_LINE_CHARS: usize = 240;

/// The summary of an event.
pub(crate) fn event(event: &Event) -> String {
    let text = |content: &[TextPart]| -> String {
        content.iter().map(|part| part.text.as_str()).collect()
    };
    let line = match event.kind.as_str() {
        event_kind::ACTION => return action_summary(event),
        event_kind::OBSERVATION => match &event.observation {
            Some(observation) => {
                let printed = text(&observation.content);
                match (observation.exit_code, observation.is_error) {
                    (Some(code), _) if code != 0 => format!("exit {code}: {printed}"),
                    (_, true) => format!("error: {printed}"),
                    _ => printed,
                }
            }
            None => String::new(),
        },
        event_kind::MESSAGE => match &event.llm_message {
            Some(message) => format!("{}: {}", event.source, text(&message.content)),
            None => event.source.clone(),
        },
        // The agent server's detail of an error quotes the model provider.
        event_kind::RUN_ERROR => event.code.clone().unwrap_or_default(),
        event_kind::REJECTION => event.rejection_reason.clone().unwrap_or_default(),
        event_kind::TOOL_ERROR => event.tool_name.clone().unwrap_or_default(),
        _ => String::new(),
    };
    one_line(&redacted(&line), MAX_LINE_CHARS)
}

/// The summary of an action: the tool with its main argument. The model's own description may say anything.
fn action_summary(event: &Event) -> String {
    let tool = event.tool_name.as_deref().unwrap_or("tool");
    // Calls of MCP servers are shown as they are, whatever the model says about them.
    if let Some(action) = &event.action
        && action.get("kind").and_then(Value::as_str) == Some("MCPToolAction")
    {
        let mut arguments = action.get("data").cloned().unwrap_or_default();
        Redactor::new(true).json(&mut arguments);
        return one_line(&redacted(&format!("{tool} {arguments}")), MAX_LINE_CHARS);
    }
    let argument = |name: &str| event.action.as_ref()?.get(name).and_then(Value::as_str);
    // Only the file name: the full path would reveal directories of the agent server.
    let file = argument("path").and_then(|path| path.rsplit('/').next());
    let parts = [Some(tool), argument("command"), file];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    one_line(&redacted(&text), MAX_ACTION_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_action(mut sent: Value, line: &str) {
        sent["kind"] = json!("ActionEvent");
        check_event(sent, line);
    }

    #[test]
    fn action_is_one_line() {
        check_action(
            json!({"tool_name": "terminal", "summary": "terminal: {\"command\": \"ls\"}",
                "action": {"command": "ls -l \\\n  src"}}),
            "terminal ls -l \\ src",
        );
        check_action(
            json!({"tool_name": "terminal", "summary": "List the files", "action": {"command": "ls"}}),
            "terminal ls",
        );
        check_action(
            json!({"tool_name": "file_editor", "summary": null,
                "action": {"command": "create", "path": "/srv/tasks/1/src/a.rs", "file_text": "x"}}),
            "file_editor create a.rs",
        );
        for action in [Value::Null, json!({"command": 3})] {
            check_action(json!({"tool_name": "odd", "action": action}), "odd");
        }
    }

    #[test]
    fn call_of_an_mcp_server_has_its_arguments() {
        check_action(
            json!({"tool_name": "n8n_run_workflow", "summary": "Look at the weather",
                "action": {"kind": "MCPToolAction", "data": {"id": 7, "password": "hunter2"}}}),
            "n8n_run_workflow {\"id\":7,\"password\":\"***\"}",
        );
    }

    #[track_caller]
    fn check_event(mut sent: Value, line: &str) {
        sent["id"] = json!("a");
        sent["timestamp"] = json!("t");
        assert_eq!(event(&serde_json::from_value(sent).unwrap()), line);
    }

    #[test]
    fn every_event_is_one_line() {
        check_event(
            json!({"kind": "ObservationEvent", "observation": {"kind": "TerminalObservation",
                "exit_code": 2, "content": [{"type": "text", "text": "no such\nfile"}]}}),
            "exit 2: no such file",
        );
        check_event(
            json!({"kind": "MessageEvent", "source": "agent",
                "llm_message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}}),
            "agent: hi",
        );
        check_event(
            json!({"kind": "ConversationErrorEvent", "code": "LLMError", "detail": "key sk-1"}),
            "LLMError",
        );
        check_event(json!({"kind": "PauseEvent"}), "");
    }
}
