//! Writes a step as a chat completion, whole or as a stream.

use serde_json::{Value, json};

use super::script::Step;

/// Returns the assistant's message for a step. It is a text if there are no tools to call, as in the
/// side questions that agents ask their model.
pub(crate) fn message(step: Option<Step>, has_tools: bool, call: &str) -> Value {
    let calls = match step.filter(|_| has_tools) {
        Some(Step::Run(command)) => vec![terminal(&command)],
        Some(Step::Parallel(commands)) => commands.iter().map(|one| terminal(one)).collect(),
        Some(Step::Lie(summary, command)) => {
            let (tool, mut arguments) = terminal(&command);
            arguments["summary"] = json!(summary);
            vec![(tool, arguments)]
        }
        Some(Step::Write(path, text)) => vec![(
            "file_editor",
            json!({ "command": "create", "path": path, "file_text": text, "security_risk": "LOW" }),
        )],
        Some(Step::Finish(text)) => vec![("finish", json!({ "message": text }))],
        Some(Step::Say(text)) => return json!({ "role": "assistant", "content": text }),
        Some(Step::Http(_)) | None => return json!({ "role": "assistant", "content": "ok" }),
    };
    let calls = calls
        .into_iter()
        .enumerate()
        .map(|(at, (tool, arguments))| {
            let function = json!({ "name": tool, "arguments": arguments.to_string() });
            json!({ "id": format!("{call}{at}"), "type": "function", "function": function })
        });
    json!({ "role": "assistant", "content": "", "tool_calls": calls.collect::<Vec<_>>() })
}

/// A call of the terminal.
fn terminal(command: &str) -> (&'static str, Value) {
    let arguments = json!({ "command": command, "security_risk": "LOW" });
    ("terminal", arguments)
}

/// Returns the response to a request without `stream`.
pub(crate) fn whole(message: &Value, model: &str) -> Value {
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish_reason(message) });
    completion("chat.completion", model, choice)
}

/// Returns all events of a stream.
pub(crate) fn stream(message: &Value, model: &str) -> String {
    let mut delta = message.clone();
    let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (at, call) in calls.into_iter().flatten().enumerate() {
        call["index"] = json!(at);
    }
    let chunks = [
        json!({ "index": 0, "delta": delta, "finish_reason": null }),
        json!({ "index": 0, "delta": {}, "finish_reason": finish_reason(message) }),
    ];
    let chunks = chunks.map(|choice| completion("chat.completion.chunk", model, choice));
    let events = chunks.map(|chunk| format!("data: {chunk}\n\n"));
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
    fn a_command_is_a_call_of_the_terminal_if_there_are_tools() {
        let step = || Some(Step::Run("ls".into()));
        let choice = |has_tools| whole(&message(step(), has_tools, "1"), "m")["choices"][0].clone();
        assert_eq!(choice(true)["finish_reason"], "tool_calls");
        let function = choice(true)["message"]["tool_calls"][0]["function"].clone();
        assert_eq!(function["name"], "terminal");
        let arguments = function["arguments"].as_str().unwrap();
        assert!(arguments.contains(r#""command":"ls""#), "{arguments}");
        assert_eq!(choice(false)["finish_reason"], "stop");
    }

    #[test]
    fn parallel_calls_have_their_own_ids() {
        let step = Step::Parallel(vec!["a".into(), "b".into()]);
        let calls = message(Some(step), true, "call_1")["tool_calls"].clone();
        assert_eq!(
            (calls[0]["id"].as_str(), calls[1]["id"].as_str()),
            (Some("call_10"), Some("call_11"))
        );
        let step = Step::Lie("x".into(), "b".into());
        let call = message(Some(step), true, "1")["tool_calls"][0].clone();
        let arguments = call["function"]["arguments"].as_str().unwrap();
        assert!(arguments.contains(r#""summary":"x""#), "{arguments}");
    }

    #[test]
    fn a_stream_ends_with_done() {
        let stream = stream(&message(Some(Step::Say("hi".into())), true, "call_1"), "m");
        let events: Vec<_> = stream.split_terminator("\n\n").collect();
        assert_eq!((events.len(), events[2]), (3, "data: [DONE]"));
    }
}
