//! A step as the chat completion that carries it, whole or as a stream.

use serde_json::{Value, json};

use super::plan::Step;

/// The assistant's message for a step. A step that calls a tool is text when no tools are
/// offered, as in the side questions that agents ask their model.
pub(crate) fn message(step: Option<Step>, has_tools: bool, call: &str) -> Value {
    let (tool, arguments) = match step {
        _ if !has_tools => return json!({ "role": "assistant", "content": "ok" }),
        Some(Step::Run(command)) => (
            "terminal",
            json!({ "command": command, "security_risk": "LOW" }),
        ),
        Some(Step::Write(path, text)) => (
            "file_editor",
            json!({ "command": "create", "path": path, "file_text": text, "security_risk": "LOW" }),
        ),
        Some(Step::Finish(text)) => ("finish", json!({ "message": text })),
        Some(Step::Say(text)) => return json!({ "role": "assistant", "content": text }),
        Some(Step::Http(_)) | None => return json!({ "role": "assistant", "content": "ok" }),
    };
    let function = json!({ "name": tool, "arguments": arguments.to_string() });
    json!({ "role": "assistant", "content": "", "tool_calls": [{ "id": call, "type": "function", "function": function }] })
}

/// The answer to a request that did not ask for a stream.
pub(crate) fn whole(message: &Value, model: &str) -> Value {
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish_reason(message) });
    completion("chat.completion", model, choice)
}

/// The events of a stream, the closing one included.
pub(crate) fn stream(message: &Value, model: &str) -> String {
    let mut delta = message.clone();
    if let Some(call) = delta.pointer_mut("/tool_calls/0") {
        call["index"] = json!(0);
    }
    let chunks = [
        json!({ "index": 0, "delta": delta, "finish_reason": null }),
        json!({ "index": 0, "delta": {}, "finish_reason": finish_reason(message) }),
    ];
    let events = chunks.map(|choice| {
        format!(
            "data: {}\n\n",
            completion("chat.completion.chunk", model, choice)
        )
    });
    events.concat() + "data: [DONE]\n\n"
}

fn finish_reason(message: &Value) -> &'static str {
    if message["tool_calls"].is_array() {
        "tool_calls"
    } else {
        "stop"
    }
}

fn completion(object: &str, model: &str, choice: Value) -> Value {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    json!({ "id": "chatcmpl-scripted", "object": object, "created": 0, "model": model, "choices": [choice], "usage": usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_a_call_of_the_terminal_where_there_are_tools() {
        let said = |has_tools| whole(&message(Some(Step::Run("ls".into())), has_tools, "1"), "m");
        let choice = said(true)["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "tool_calls");
        let function = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "terminal");
        let arguments = function["arguments"].as_str().unwrap();
        assert!(arguments.contains(r#""command":"ls""#), "{arguments}");
        assert_eq!(said(false)["choices"][0]["finish_reason"], "stop");
    }

    #[test]
    fn a_stream_ends_as_clients_expect() {
        let stream = stream(&message(Some(Step::Say("hi".into())), true, "call_1"), "m");
        let events: Vec<_> = stream.split_terminator("\n\n").collect();
        assert_eq!(events.len(), 3);
        assert_eq!(events[2], "data: [DONE]");
    }
}
