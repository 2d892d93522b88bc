//! An HTTP client for services on this machine; every call has a limit in time and size.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request};

const MAX_BODY: u64 = 8 << 20;

/// A client for one base URL, with the headers of every call.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    headers: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body; `Value::Null` if it is not JSON.
    pub(crate) json: Value,
}

impl Client {
    /// Creates a client for calls that may take up to `timeout`.
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

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends a `GET`; any status is fine.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Response> {
        self.call(Method::GET, path, None)
    }

    /// Sends a request; any status is fine.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Response> {
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
    pub(crate) fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let Response { status, json, .. } = self.call(method.clone(), path, Some(body))?;
        let is_good = (200..300).contains(&status);
        ensure!(is_good, "{method} {path} answered {status}");
        Ok(json)
    }

    /// Returns true if `GET path` answers 200.
    pub(crate) fn is_up(&self, path: &str) -> bool {
        self.get(path).is_ok_and(|response| response.status == 200)
    }
}
