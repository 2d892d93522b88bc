//! Summaries of events, one line each. Pure.

use serde_json::{Map, Value};
use upstream::redact::redacted;
use upstream::text::one_line;

use crate::api::{Action, Event, Text, kind};

/// Characters of an action in a status or a progress message.
const MAX_ACTION: usize = 160;
/// Characters of any other event.
const MAX_LINE: usize = 240;

/// An action in one line: the model's own summary, or the tool with its main argument.
pub(crate) fn action(action: &Action) -> String {
    act(
        &action.tool_name,
        action.summary.as_deref(),
        action.action.as_ref(),
    )
}

/// Any event in one line.
pub(crate) fn event(event: &Event) -> String {
    let text =
        |content: &[Text]| -> String { content.iter().map(|part| part.text.as_str()).collect() };
    let line = match event.kind.as_str() {
        kind::ACTION => {
            let tool = event.tool_name.as_deref().unwrap_or("tool");
            return act(tool, event.summary.as_deref(), event.action.as_ref());
        }
        kind::OBSERVATION => match &event.observation {
            Some(seen) => {
                let printed = text(&seen.content);
                match (seen.exit_code, seen.is_error) {
                    (Some(code), _) if code != 0 => format!("exit {code}: {printed}"),
                    (_, true) => format!("error: {printed}"),
                    _ => printed,
                }
            }
            None => String::new(),
        },
        kind::MESSAGE => match &event.llm_message {
            Some(message) => format!("{}: {}", event.source, text(&message.content)),
            None => event.source.clone(),
        },
        // The agent server's detail of an error quotes the model provider.
        kind::RUN_ERROR => event.code.clone().unwrap_or_default(),
        kind::REJECTION => event.rejection_reason.clone().unwrap_or_default(),
        kind::TOOL_ERROR => event.tool_name.clone().unwrap_or_default(),
        _ => String::new(),
    };
    one_line(&redacted(&line), MAX_LINE)
}

fn act(tool: &str, summary: Option<&str>, arguments: Option<&Map<String, Value>>) -> String {
    let argument = |name: &str| arguments?.get(name).and_then(Value::as_str);
    let text = match summary {
        // `tool: {…}` is what the agent server writes where the model has no words.
        Some(summary) if !summary.starts_with(&format!("{tool}: {{")) => summary.to_owned(),
        _ => {
            // A path shows where the agent server keeps its files; its last part says enough.
            let file = argument("path").and_then(|path| path.rsplit('/').next());
            let parts = [Some(tool), argument("command"), file];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
    };
    one_line(&redacted(&text), MAX_ACTION)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(mut told: Value, line: &str) {
        told["id"] = json!("a");
        told["timestamp"] = json!("2026-11-21T08:04:38.844052");
        assert_eq!(action(&serde_json::from_value(told.clone()).unwrap()), line);
        told["kind"] = json!("ActionEvent");
        assert_eq!(event(&serde_json::from_value(told).unwrap()), line);
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

    #[track_caller]
    fn check_event(mut told: Value, line: &str) {
        told["id"] = json!("a");
        told["timestamp"] = json!("t");
        assert_eq!(event(&serde_json::from_value(told).unwrap()), line);
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
