//! A model that does what the prompt says, so that tests and the first run need no real one: an OpenAI-compatible
//! endpoint on loopback.
//!
//! It keeps no state: the next step follows from the conversation in the request. Its HTTP/1.1 is minimal: one request
//! per connection, and limits on everything that is read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::secrets;

const MAX_REQUEST: u64 = 32 << 20;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";

/// Serves on a free port of loopback until this process ends.
pub(crate) fn serve_in_background() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The error of a client that disconnects is ignored.
            thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// Answers the one request of this connection.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    let (status, media_type, body) = match read(&stream)? {
        None => {
            let model = json!({ "id": "scripted", "object": "model" });
            let models = json!({ "object": "list", "data": [model] });
            (200, JSON, models.to_string())
        }
        Some(request) => complete(&request),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} -\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Returns the status, media type and body of a completion.
fn complete(request: &Value) -> (u16, &'static str, String) {
    let tools = request["tools"].as_array();
    let has_tools = tools.is_some_and(|tools| !tools.is_empty());
    // A side question has no tools; the script must not delay it or make it fail.
    let messages = request["messages"].as_array().filter(|_| has_tools);
    let turn = messages.and_then(|messages| next(messages));
    let step = turn.map(|(delay, step)| {
        thread::sleep(delay);
        step
    });
    let message = match step {
        Some(Step::Call(calls)) => message(calls),
        Some(Step::Say(text)) => json!({ "role": "assistant", "content": text }),
        Some(Step::Http(status)) => {
            let error = json!({ "message": "scripted failure", "type": "server_error" });
            return (status, JSON, json!({ "error": error }).to_string());
        }
        None => json!({ "role": "assistant", "content": "ok" }),
    };
    let model = request["model"].as_str().unwrap_or("scripted");
    let reason = match message["tool_calls"].is_array() {
        true => "tool_calls",
        false => "stop",
    };
    if request["stream"] == true {
        return (200, "text/event-stream", stream(message, reason, model));
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
    let whole = completion("chat.completion", model, choice);
    (200, JSON, whole.to_string())
}

/// Reads the body of a request for a completion; `None` for the list of models.
fn read(stream: &TcpStream) -> io::Result<Option<Value>> {
    let mut input = BufReader::new(stream).take(MAX_REQUEST);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if input.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, value)| value.trim().parse().ok());
    let mut body = Vec::new();
    input.take(length.unwrap_or(0)).read_to_end(&mut body)?;
    let is_post = head.starts_with("POST ");
    Ok(is_post.then(|| serde_json::from_slice(&body).unwrap_or_default()))
}

fn message(calls: Vec<Call>) -> Value {
    let random = secrets::random().unwrap_or_default();
    let calls = calls.into_iter().enumerate();
    let calls = calls.map(|(at, (tool, arguments))| {
        let function = json!({ "name": tool, "arguments": arguments.to_string() });
        json!({ "id": format!("call_{random:.12}{at}"), "type": "function", "function": function })
    });
    json!({ "role": "assistant", "content": "", "tool_calls": calls.collect::<Vec<_>>() })
}

fn stream(mut delta: Value, reason: &str, model: &str) -> String {
    let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (at, call) in calls.into_iter().flatten().enumerate() {
        call["index"] = json!(at);
    }
    let choices = [
        json!({ "index": 0, "delta": delta, "finish_reason": null }),
        json!({ "index": 0, "delta": {}, "finish_reason": reason }),
    ];
    let chunks = choices.map(|choice| completion("chat.completion.chunk", model, choice));
    let events = chunks.map(|chunk| format!("data: {chunk}\n\n"));
    events.concat() + "data: [DONE]\n\n"
}

fn completion(object: &str, model: &str, choice: Value) -> Value {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    json!({ "id": "chatcmpl-scripted", "object": object, "created": 0, "model": model, "choices": [choice], "usage": usage })
}

type Call = (&'static str, Value);

/// An action of the model, one per turn.
enum Step {
    Call(Vec<Call>),
    Say(String),
    /// A failure with this status.
    Http(u16),
}

/// A step after a delay (`SLEEP: seconds`).
type Turn = (Duration, Step);

/// Returns the next turn in this conversation; `None` if no prompt has a directive.
///
/// The script is the last user message with directives. Each message of the assistant since then has
/// taken one step; after the last step comes `FINISH: done`.
fn next(messages: &[Value]) -> Option<Turn> {
    let mut last_first = messages.iter().enumerate().rev();
    let (at, script) = last_first.find_map(|(at, message)| {
        let content = (message["role"] == "user").then(|| text(&message["content"]))?;
        Some((at, parse(&content)?))
    })?;
    let since = messages[at..].iter();
    let taken = since.filter(|message| message["role"] == "assistant");
    let done = || (Duration::ZERO, finish("done"));
    Some(script.into_iter().nth(taken.count()).unwrap_or_else(done))
}

/// Returns the text of a message: a string or a list of parts.
fn text(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect()
}

/// Parses the script of a prompt; `None` if it has no directive.
fn parse(prompt: &str) -> Option<Vec<Turn>> {
    let mut turns = Vec::new();
    let mut delay = Duration::ZERO;
    let lines = prompt.lines();
    for (word, rest) in lines.filter_map(|line| line.trim().split_once(':')) {
        let rest = rest.trim();
        if word == "SLEEP" {
            let seconds = rest.parse().ok();
            let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            delay += pause.unwrap_or_default();
        } else if let Some(step) = step(word, rest) {
            turns.push((mem::take(&mut delay), step));
        }
    }
    let is_script = !turns.is_empty() || !delay.is_zero();
    turns.push((delay, finish("done")));
    is_script.then_some(turns)
}

/// Returns the step of a directive.
fn step(word: &str, rest: &str) -> Option<Step> {
    let parts = || rest.split(" || ");
    Some(match word {
        "RUN" => Step::Call(vec![terminal(rest)]),
        // A command that the agent takes for dangerous.
        "RISK" => {
            let (tool, mut arguments) = terminal(rest);
            arguments["security_risk"] = json!("HIGH");
            Step::Call(vec![(tool, arguments)])
        }
        // A command of several lines.
        "LINES" => Step::Call(vec![terminal(&parts().collect::<Vec<_>>().join("\n"))]),
        // Several calls in one turn.
        "PAR" => Step::Call(parts().map(terminal).collect()),
        // A call that is described with another text.
        "LIE" => {
            let (summary, command) = rest.split_once(" || ")?;
            let (tool, mut arguments) = terminal(command);
            arguments["summary"] = json!(summary);
            Step::Call(vec![(tool, arguments)])
        }
        "WRITE" => {
            let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let file = json!({ "command": "create", "path": path, "file_text": text, "security_risk": "LOW" });
            Step::Call(vec![("file_editor", file)])
        }
        "SAY" => Step::Say(rest.to_owned()),
        "HTTP" => {
            let status = rest.parse().ok();
            Step::Http(status.filter(|status| (400..600).contains(status))?)
        }
        "FINISH" => finish(rest),
        _ => return None,
    })
}

/// The call that ends the task.
fn finish(text: &str) -> Step {
    Step::Call(vec![("finish", json!({ "message": text }))])
}

/// A call of the terminal. Without a time limit, OpenHands gives up a command that has printed nothing for 30 seconds.
fn terminal(command: &str) -> Call {
    let arguments = json!({ "command": command, "timeout": 600, "security_risk": "LOW" });
    ("terminal", arguments)
}
