//! A client without an SDK, which chooses the replica for each request.

use std::io::{BufRead as _, BufReader};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

/// Longer than any answer takes, and shorter than the gateway's own timeout of a call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The id of every request.
const ID: u64 = 7;

/// A response, read in the background as it comes.
pub(super) struct Stream {
    pub(super) status: u16,
    pub(super) session: String,
    messages: Receiver<Value>,
}

#[derive(Clone)]
pub(super) struct Client {
    agent: Agent,
    urls: Vec<String>,
}

impl Client {
    pub(super) fn new(ports: &[u16]) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(CALL_TIMEOUT))
            .http_status_as_error(false);
        let urls = ports
            .iter()
            .map(|port| format!("http://127.0.0.1:{port}/mcp"));
        Self {
            agent: config.proxy(None).build().new_agent(),
            urls: urls.collect(),
        }
    }

    /// Sends a request to the server `at`.
    pub(super) fn send(
        &self,
        at: usize,
        method: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> anyhow::Result<Stream> {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.urls[at])
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let response = self.agent.run(request.body(body)?)?;
        let header = |name: &str| {
            let value = response.headers().get(name);
            value
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let (status, session) = (response.status().as_u16(), header("mcp-session-id"));
        let (sender, messages) = mpsc::channel();
        let reader = BufReader::new(response.into_body().into_reader());
        thread::spawn(move || {
            // A line is a JSON body, or a field of an event, of which `data` has a message.
            for line in reader.lines().map_while(Result::ok) {
                let data = line.strip_prefix("data: ").unwrap_or(&line);
                if let Ok(message) = serde_json::from_str(data)
                    && sender.send(message).is_err()
                {
                    break;
                }
            }
        });
        Ok(Stream {
            status,
            session,
            messages,
        })
    }

    pub(super) fn post(&self, at: usize, session: &str, body: &Value) -> anyhow::Result<Stream> {
        self.send(at, "POST", &[("mcp-session-id", session)], body)
    }

    /// Sends a request of a session and returns its response.
    pub(super) fn ask(
        &self,
        at: usize,
        session: &str,
        method: &str,
        params: Value,
    ) -> anyhow::Result<Value> {
        self.post(at, session, &request(method, params))?.response()
    }

    pub(super) fn call(
        &self,
        at: usize,
        session: &str,
        tool: &str,
        arguments: Value,
    ) -> anyhow::Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        match session {
            // Without a revision results are text only.
            "" => self.modern(at, "tools/call", params),
            session => self.ask(at, session, "tools/call", params),
        }
    }

    /// Sends a request of 2026-07-28 and returns its response.
    pub(super) fn modern(
        &self,
        at: usize,
        method: &str,
        mut params: Value,
    ) -> anyhow::Result<Value> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let name = params["name"].as_str().or(params["taskId"].as_str());
        let name = name.unwrap_or_default().to_owned();
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", &*name),
        ];
        self.send(at, "POST", &headers, &request(method, params))?
            .response()
    }

    /// Opens a session of 2025-11-25.
    pub(super) fn session(&self, at: usize) -> anyhow::Result<String> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}, "sampling": {}},
            "clientInfo": {"name": "xtask", "version": "1"},
        });
        let stream = self.post(at, "", &request("initialize", params))?;
        if stream.session.is_empty() {
            bail!("initialize: {} {}", stream.status, stream.response()?);
        }
        Ok(stream.session)
    }

    /// Returns the status and the text of another page, such as `/readyz`.
    pub(super) fn page(&self, at: usize, path: &str) -> anyhow::Result<(u16, String)> {
        let url = self.urls[at].replace("/mcp", path);
        let mut response = self.agent.run(Request::get(url).body(String::new())?)?;
        Ok((
            response.status().as_u16(),
            response.body_mut().read_to_string()?,
        ))
    }

    pub(super) fn delete(&self, at: usize, session: &str) -> anyhow::Result<u16> {
        let sent = self.send(at, "DELETE", &[("mcp-session-id", session)], &Value::Null);
        Ok(sent?.status)
    }
}

impl Stream {
    fn message(&self) -> anyhow::Result<Value> {
        let why = match self.messages.recv_timeout(ANSWER_TIMEOUT) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Timeout) => "no message in time",
            Err(RecvTimeoutError::Disconnected) => "the response ends without a message",
        };
        bail!("status {}: {why}", self.status)
    }

    /// Returns the response to the request, after all other messages.
    pub(super) fn response(&self) -> anyhow::Result<Value> {
        loop {
            let message = self.message()?;
            if message["method"].is_null() {
                return Ok(message);
            }
        }
    }
}

pub(super) fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": ID, "method": method, "params": params})
}
