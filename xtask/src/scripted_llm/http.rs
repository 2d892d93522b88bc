//! Just enough HTTP/1.1: one request per connection, limits on everything that is read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer;
use super::plan::{self, Step};
use crate::secrets;

const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: usize = 32 << 20;
const IDLE: Duration = Duration::from_secs(30);

/// Answers the one request of this connection.
pub(crate) fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    let Some((method, body)) = read(&stream)? else {
        return reply(&mut stream, 400, "application/json", "{}");
    };
    if method != "POST" {
        let models = json!({ "object": "list", "data": [{ "id": "scripted", "object": "model" }] });
        return reply(&mut stream, 200, "application/json", &models.to_string());
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let has_tools = request["tools"]
        .as_array()
        .is_some_and(|tools| !tools.is_empty());
    // A side question without tools must neither wait nor fail for the script's sake.
    let turn = request["messages"]
        .as_array()
        .filter(|_| has_tools)
        .and_then(|messages| plan::next(messages));
    if let Some(turn) = &turn {
        thread::sleep(turn.delay);
        if let Step::Http(status) = turn.step {
            let error =
                json!({ "error": { "message": "scripted failure", "type": "server_error" } });
            return reply(&mut stream, status, "application/json", &error.to_string());
        }
    }
    let call = format!(
        "call_{}",
        secrets::random()
            .unwrap_or_default()
            .get(..12)
            .unwrap_or("1")
    );
    let message = answer::message(turn.map(|turn| turn.step), has_tools, &call);
    let model = request["model"].as_str().unwrap_or("scripted");
    if request["stream"] == true {
        return reply(
            &mut stream,
            200,
            "text/event-stream",
            &answer::stream(&message, model),
        );
    }
    reply(
        &mut stream,
        200,
        "application/json",
        &answer::whole(&message, model).to_string(),
    )
}

/// Method and body; `None` for what this server does not take.
fn read(stream: &TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut input = BufReader::new(stream);
    let mut head = (&mut input).take(MAX_HEAD);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((_, value)) = header
            .split_once(':')
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            match value.trim().parse() {
                Ok(announced) if announced <= MAX_BODY => length = announced,
                _ => return Ok(None),
            }
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some((method, body)))
}

fn reply(stream: &mut TcpStream, status: u16, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}
