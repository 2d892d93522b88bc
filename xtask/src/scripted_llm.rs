//! A model that does what the prompt says: an OpenAI-compatible endpoint on loopback.
//!
//! It makes an agent predictable, so that tests and the first run need no real model. It keeps no
//! state: the next step follows from the conversation in the request. Its HTTP/1.1 is minimal: one
//! request per connection, and limits on everything that is read.

mod completion;
mod script;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::secrets;
use crate::shutdown::Shutdown;

use script::Step;

const DEFAULT_PORT: u16 = 8001;
const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: u64 = 32 << 20;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";

/// Serves until a request to shut down.
pub(crate) fn run(port: Option<u16>, shutdown: &Shutdown) -> anyhow::Result<ExitCode> {
    let address = serve_in_background(port.unwrap_or(DEFAULT_PORT))?;
    print_line!("scripted model: http://{address}/v1 (any model name, any key)");
    shutdown.wait();
    Ok(ExitCode::SUCCESS)
}

/// Serves on loopback until this process ends; port 0 takes a free one.
pub(crate) fn serve_in_background(port: u16) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The error of a client that disconnects is ignored.
            thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// A parsed request.
enum Request {
    /// Not acceptable.
    Invalid,
    /// For the list of models.
    Get,
    /// For a completion.
    Post(Value),
}

/// Answers the one request of this connection.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    let (status, media_type, body) = match read(&stream)? {
        Request::Invalid => (400, JSON, "{}".to_owned()),
        Request::Get => {
            let model = json!({ "id": "scripted", "object": "model" });
            let models = json!({ "object": "list", "data": [model] });
            (200, JSON, models.to_string())
        }
        Request::Post(request) => complete(&request),
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
    let turn = messages.and_then(|messages| script::next(messages));
    let step = turn.map(|turn| {
        thread::sleep(turn.delay);
        turn.step
    });
    if let Some(Step::Http(status)) = step {
        let error = json!({ "message": "scripted failure", "type": "server_error" });
        return (status, JSON, json!({ "error": error }).to_string());
    }
    let random = secrets::random().unwrap_or_default();
    let message = completion::message(step, has_tools, &format!("call_{random:.12}"));
    let model = request["model"].as_str().unwrap_or("scripted");
    if request["stream"] == true {
        let events = completion::stream(&message, model);
        return (200, "text/event-stream", events);
    }
    (200, JSON, completion::whole(&message, model).to_string())
}

fn read(stream: &TcpStream) -> io::Result<Request> {
    let mut input = BufReader::new(stream);
    let mut head = String::new();
    let mut limited = (&mut input).take(MAX_HEAD);
    while !head.ends_with("\r\n\r\n") {
        if limited.read_line(&mut head)? == 0 {
            return Ok(Request::Invalid);
        }
    }
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(Ok(0), |(_, value)| value.trim().parse());
    let Some(length) = length.ok().filter(|length| *length <= MAX_BODY) else {
        return Ok(Request::Invalid);
    };
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    if !head.starts_with("POST ") {
        return Ok(Request::Get);
    }
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Request::Post(body))
}
