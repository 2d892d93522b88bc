//! Plain HTTP to services on this machine; every call has a limit in time and size.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request};

const MAX_BODY: u64 = 8 << 20;

/// A small client for one base URL, with the headers that every call carries.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    headers: Vec<(&'static str, String)>,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status code.
    pub(crate) status: u16,
    /// The headers of the answer.
    pub(crate) headers: HeaderMap,
    /// The body; not JSON is `Value::Null`.
    pub(crate) json: Value,
}

impl Client {
    /// A client for calls that may take up to `timeout`.
    pub(crate) fn new(base: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0);
        Self {
            // A proxy for the world outside must not see calls to this machine.
            agent: config.proxy(None).build().new_agent(),
            base: base.trim_end_matches('/').to_owned(),
            headers: Vec::new(),
        }
    }

    /// Adds a header to every call.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends a `GET`, whatever the status.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::GET, path, None)
    }

    /// Sends any method, whatever the status.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
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
        let body = body.read_to_vec()?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            json: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Sends a call that has to succeed and gives its JSON.
    pub(crate) fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let Answer { status, json, .. } = self.call(method.clone(), path, Some(body))?;
        let is_good = (200..300).contains(&status);
        ensure!(is_good, "{method} {path} answered {status}");
        Ok(json)
    }

    /// Returns true when `GET path` answers 200.
    pub(crate) fn is_up(&self, path: &str) -> bool {
        self.get(path).is_ok_and(|answer| answer.status == 200)
    }
}
