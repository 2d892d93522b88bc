//! An HTTP client for services on this machine, and for calls of MCP; every call has a limit in time and size.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request};

const MAX_BODY: u64 = 8 << 20;

/// The newest revision of MCP with sessions.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The revision of MCP without sessions.
const MODERN: &str = "2026-07-28";

/// A client for one base URL, with the headers of every call.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    headers: Vec<Header>,
}

pub(crate) type Header = (&'static str, String);

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body; `Value::Null` if it is not JSON.
    pub(crate) json: Value,
}

impl Client {
    pub(crate) fn new(base: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0);
        Self {
            // A proxy for the internet must not see calls to this machine.
            agent: config.proxy(None).build().new_agent(),
            base: base.trim_end_matches('/').to_owned(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn at(port: u16, timeout: Duration) -> Self {
        Self::new(&format!("http://127.0.0.1:{port}"), timeout)
    }

    pub(crate) fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        self.with_all([(name, value.into())])
    }

    pub(crate) fn with_all(mut self, headers: impl IntoIterator<Item = Header>) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Sends a `GET`; any status is fine.
    pub(crate) fn get(&self, path: &str) -> Result<Response> {
        self.call(Method::GET, path, None)
    }

    /// Sends a request; any status is fine.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(&method).uri(url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(body.map(Value::to_string).unwrap_or_default())?;
        let response = self.agent.run(request);
        let mut response = response.with_context(|| format!("{method} {path}"))?;
        let body = response.body_mut().with_config().limit(MAX_BODY);
        Ok(Response {
            json: serde_json::from_slice(&body.read_to_vec()?).unwrap_or_default(),
            status: response.status().as_u16(),
            headers: response.headers().clone(),
        })
    }

    /// Sends a request that must succeed and returns the JSON of its response.
    pub(crate) fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let Response { status, json, .. } = self.call(method.clone(), path, Some(body))?;
        let is_good = (200..300).contains(&status);
        ensure!(is_good, "{method} {path} answered {status}");
        Ok(json)
    }

    /// Returns true if `GET path` answers 200.
    pub(crate) fn is_up(&self, path: &str) -> bool {
        self.get(path).is_ok_and(|response| response.status == 200)
    }

    /// Opens a session of MCP 2025-11-25 and returns its id.
    pub(crate) fn open_session(&self) -> Result<String> {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}, "sampling": {}},
            "clientInfo": {"name": "xtask", "version": "1"},
        });
        let body = request("initialize", params);
        let answer = self.call(Method::POST, "/mcp", Some(&body))?;
        let session = answer.headers.get("mcp-session-id");
        let session = session.with_context(|| format!("no session: {}", answer.json))?;
        Ok(session.to_str()?.to_owned())
    }

    /// Returns a client for a session of MCP, unless that is empty.
    pub(crate) fn in_session(&self, session: &str) -> Self {
        let header = (!session.is_empty()).then(|| ("mcp-session-id", session.to_owned()));
        self.clone().with_all(header)
    }

    /// Sends a request of MCP, in a session unless that is empty, and returns its response.
    pub(crate) fn ask(&self, session: &str, method: &str, params: Value) -> Result<Value> {
        self.in_session(session).post(&request(method, params))
    }

    /// Sends a request of MCP 2026-07-28 and returns its response.
    pub(crate) fn modern(&self, method: &str, params: Value) -> Result<Value> {
        let (headers, body) = modern(method, params);
        self.clone().with_all(headers).post(&body)
    }

    pub(crate) fn tool(&self, name: &str, arguments: Value) -> Result<Value> {
        self.modern("tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn post(&self, body: &Value) -> Result<Value> {
        let Response { status, json, .. } = self.call(Method::POST, "/mcp", Some(body))?;
        ensure!(!json.is_null(), "status {status}: no response");
        Ok(json)
    }
}

pub(crate) fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// Returns a request of MCP 2026-07-28, with its headers.
pub(crate) fn modern(method: &str, mut params: Value) -> (Vec<Header>, Value) {
    let key = |name| format!("io.modelcontextprotocol/{name}");
    params["_meta"] = json!({
        key("protocolVersion"): MODERN,
        key("clientInfo"): {"name": "xtask", "version": "1"},
        key("clientCapabilities"):
            {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let name = params["name"].as_str().or(params["taskId"].as_str());
    let mut headers = vec![
        ("MCP-Protocol-Version", MODERN.to_owned()),
        ("Mcp-Method", method.to_owned()),
    ];
    headers.extend(name.map(|name| ("Mcp-Name", name.to_owned())));
    (headers, request(method, params))
}
