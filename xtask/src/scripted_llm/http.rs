//! Just enough HTTP/1.1: one request per connection, limits on everything that is read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer;
use super::plan::{self, Step, Turn};
use crate::secrets;

const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: u64 = 32 << 20;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers the one request of this connection.
pub(super) fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    let (status, kind, body) = match read(&stream)? {
        None => (400, "application/json", "{}".to_owned()),
        Some(None) => {
            let model = json!({ "id": "scripted", "object": "model" });
            let models = json!({ "object": "list", "data": [model] });
            (200, "application/json", models.to_string())
        }
        Some(Some(request)) => answer(&request),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

/// Returns the status, type and body of the answer to a conversation.
fn answer(request: &Value) -> (u16, &'static str, String) {
    let tools = request["tools"].as_array();
    let has_tools = tools.is_some_and(|tools| !tools.is_empty());
    // A side question without tools must neither wait nor fail for the script's sake.
    let messages = request["messages"].as_array().filter(|_| has_tools);
    let step = messages
        .and_then(|messages| plan::next(messages))
        .map(|Turn { delay, step }| {
            thread::sleep(delay);
            step
        });
    if let Some(Step::Http(status)) = step {
        let error = json!({ "message": "scripted failure", "type": "server_error" });
        let body = json!({ "error": error }).to_string();
        return (status, "application/json", body);
    }
    let random = secrets::random().unwrap_or_default();
    let message = answer::message(step, has_tools, &format!("call_{random:.12}"));
    let model = request["model"].as_str().unwrap_or("scripted");
    if request["stream"] == true {
        return (200, "text/event-stream", answer::stream(&message, model));
    }
    let body = answer::whole(&message, model).to_string();
    (200, "application/json", body)
}

/// Reads a request: `None` for what this server does not take, no body but for a `POST`.
fn read(stream: &TcpStream) -> io::Result<Option<Option<Value>>> {
    let mut input = BufReader::new(stream);
    let mut head = String::new();
    let mut limited = (&mut input).take(MAX_HEAD);
    while !head.ends_with("\r\n\r\n") {
        if limited.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(Ok(0), |(_, value)| value.trim().parse());
    let Some(length) = length.ok().filter(|length| *length <= MAX_BODY) else {
        return Ok(None);
    };
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    let request = || serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(head.starts_with("POST ").then(request)))
}
